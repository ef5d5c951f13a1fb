// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A text without a chat template that goes on from run to run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/conversation.h"

namespace kvasir::cli {

// Everything a raw text is beside its sequence.
struct RawTextState {
  std::vector<int32_t> held_tokens;  // what the cache holds
  std::vector<int32_t> pending;      // generated, but not fed: what a limit stopped behind
};

class RawText {
 public:
  RawText(Engine& engine, SequenceId sequence, RawTextState state)
      : engine_(engine), sequence_(sequence), state_(std::move(state)) {}

  // Feeds what is pending and `text`, and generates. An empty text goes on from what is pending. If the prompt was
  // interrupted, the sequence holds a part of it and `complete` is false: what was saved before is still good.
  // Throws Error: invalid_argument (nothing to go on from), context_full, out_of_memory.
  Turn go_on(const std::string& text, Sampler& sampler, int64_t most_tokens, const InterruptGuard& interrupt,
             const std::function<void(std::string_view)>& on_text);

  bool complete() const { return complete_; }
  SequenceId sequence() const { return sequence_; }
  const RawTextState& state() const { return state_; }

 private:
  Engine& engine_;
  SequenceId sequence_;
  RawTextState state_;
  bool complete_ = true;
};

}  // namespace kvasir::cli
