// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A chat told turn by turn: what the model's template writes around what is said, without the turns before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

inline constexpr const char* kUser = "user";
inline constexpr const char* kAssistant = "assistant";

// It doesn't depend on what was said before, so a template that rewrites history (trims answers, drops reasoning) can't
// make a cache wrong that holds history as it was.
struct ChatFrame {
  std::string opening;  // before the first message of all, the system message included
  std::string closing;  // between an answer and the next message
  std::string answer;   // between a message and its answer

  std::vector<int32_t> opening_tokens(const Model& model) const;
  // Of a message with what stands around it up to its answer: the first one behind the opening, the others behind an
  // answer.
  std::vector<int32_t> message_tokens(const Model& model, const std::string& message, bool first) const;
};

// Throws Error unsupported: a model without a chat template, or with one that can't be told turn by turn.
ChatFrame chat_frame(const Model& model, const std::string& system);

}  // namespace kvasir
