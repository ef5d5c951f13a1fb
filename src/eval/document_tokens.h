// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "eval/document.h"
#include "kvasir/engine.h"

namespace kvasir {

// The shortest book of that seed, in whole days, with at least `count` tokens of the model; `tokens` may be longer.
struct TokenizedDocument {
  Document document;
  std::vector<int32_t> tokens;
};
TokenizedDocument tokenize_document(const Model& model, uint64_t seed, int64_t count);

}  // namespace kvasir
