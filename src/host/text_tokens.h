// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts that are read piece by piece, as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

// A text that starts a sequence, never with two BOS (some templates write their own).
std::vector<int32_t> tokenize_beginning(const Model& model, const std::string& text, bool parse_special);

// The tokens of `text` as they follow `before`.
std::vector<int32_t> tokenize_continuation(const Model& model, const std::string& before, const std::string& text,
                                           bool parse_special);

}  // namespace kvasir
