// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A text cut into windows as llama-perplexity cuts it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

// Non-overlapping windows of `tokens` tokens, at most `most` of them (0: all). Where the model starts its texts with a
// BOS, the first token of every window is replaced by it. Throws Error invalid_argument if the text holds less than one
// window.
std::vector<std::vector<int32_t>> cut_chunks(const Model& model, const std::string& text, int64_t tokens, int most);

}  // namespace kvasir
