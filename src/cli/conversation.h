// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A chat whose cache lives on between turns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/generation.h"
#include "kvasir/engine.h"

namespace kvasir::cli {

// Where the templated text goes on exactly from what the cache holds, only the new part is fed; where the template
// rewrote history (some trim answers or drop reasoning), the cache goes back to the longest common beginning and the
// rest is fed again.
class Conversation {
 public:
  Conversation(Engine& engine, const std::string& system);

  struct Turn {
    Generated answer;
    size_t fed_tokens = 0;     // of the prompt, in this turn
    size_t reused_tokens = 0;  // that the cache already held
    double prefill_seconds = 0;
  };

  // One user message and the answer. Throws Error context_full and out_of_memory before anything is computed; the
  // message is then forgotten and the conversation stands as before.
  Turn say(const std::string& message, Sampler& sampler, int64_t most_tokens, const InterruptGuard& interrupt,
           const std::function<void(std::string_view)>& on_text);

 private:
  // Tokens to feed for `text`; cuts the cache where needed.
  std::vector<int32_t> new_tokens(const std::string& text);

  Engine& engine_;
  SequenceId sequence_;
  std::vector<Model::Message> messages_;
  std::string held_text_;             // what the cache holds, as templated text
  std::vector<int32_t> held_tokens_;  // and as tokens
  bool text_is_exact_ = true;         // held_text_ spells held_tokens_ completely
};

}  // namespace kvasir::cli
