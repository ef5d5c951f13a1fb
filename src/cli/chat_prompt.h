// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From messages to tokens, through the model's own chat template.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir::cli {

bool has_chat_template(const Model& model);

// Tokens of a text that starts a sequence: with BOS where the model wants one, and never with two (some templates
// write their own).
std::vector<int32_t> tokenize_start(const Model& model, const std::string& text, bool parse_special);

// One user message as a prompt: in the chat template if the model has one and `raw` isn't set, else as it is.
// Throws Error unsupported for a template that llama.cpp doesn't know (the message names --raw), invalid_argument for a
// system message without a template.
std::vector<int32_t> first_prompt(const Model& model, const std::string& text, const std::string& system, bool raw);

}  // namespace kvasir::cli
