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

struct Turn {
  Generated answer;
  size_t fed_tokens = 0;     // of the prompt, in this turn
  size_t reused_tokens = 0;  // that the cache already held
  double prefill_seconds = 0;
};

// Everything a conversation is beside its sequence.
struct ConversationState {
  std::vector<Model::Message> messages;
  std::string held_text;             // what the cache holds, as templated text
  std::vector<int32_t> held_tokens;  // and as tokens
  bool text_is_exact = true;         // held_text spells held_tokens completely
};

// Where the templated text goes on exactly from what the cache holds, only the new part is fed; where the template
// rewrote history (some trim answers or drop reasoning), the cache goes back to the longest common beginning and the
// rest is fed again.
class Conversation {
 public:
  // Throws Error unsupported for a model without a chat template.
  Conversation(Engine& engine, const std::string& system);
  // One that goes on: `sequence` holds state.held_tokens.
  Conversation(Engine& engine, SequenceId sequence, ConversationState state);

  SequenceId sequence() const { return sequence_; }
  const ConversationState& state() const { return state_; }

  // One user message and the answer. Throws Error context_full and out_of_memory before anything is computed; the
  // message is then forgotten and the conversation stands as before.
  Turn say(const std::string& message, Sampler& sampler, int64_t most_tokens, const InterruptGuard& interrupt,
           const std::function<void(std::string_view)>& on_text);

 private:
  // Tokens to feed for `text`; cuts the cache where needed.
  std::vector<int32_t> new_tokens(const std::string& text);

  Engine& engine_;
  SequenceId sequence_;
  ConversationState state_;
};

}  // namespace kvasir::cli
