// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One answer: the prompt goes in with progress, tokens come out as text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/interrupt.h"
#include "cli/sampling.h"
#include "kvasir/engine.h"

namespace kvasir::cli {

// Holds back the bytes of a character that isn't complete yet: a token may end inside one.
class Utf8Stream {
 public:
  // The bytes that can be shown now.
  std::string push(std::string_view bytes);
  // What is left at the end, complete or not.
  std::string finish();

 private:
  std::string held_;
};

// Appends `tokens`, one micro-batch at a time, and returns the logits of the last one; they live until the next decode.
// Empty if interrupted on the way. Throws Error context_full (both numbers) and out_of_memory before anything is
// computed.
std::span<const float> prefill(Engine& engine, SequenceId sequence, std::span<const int32_t> tokens,
                               const InterruptGuard& interrupt);

enum class StopReason { end_of_text, most_tokens, context_full, interrupted };
std::string to_string(StopReason reason);

struct Generated {
  std::string text;
  std::vector<int32_t> tokens;  // an end-of-generation token is not among them
  size_t fed = 0;               // how many of them are in the cache: the last one isn't where a limit stopped it
  double seconds = 0;           // of the decode steps, the prefill not counted
  size_t steps = 0;             // decode steps
  StopReason stop = StopReason::end_of_text;

  double tokens_per_second() const { return seconds > 0 ? double(steps) / seconds : 0.0; }
};

// Samples from `logits` and feeds each token, until the model ends, `most` tokens (-1: no limit) or a full context.
// `on_text` gets whole characters as they come.
Generated generate(Engine& engine, SequenceId sequence, std::span<const float> logits, Sampler& sampler, int64_t most,
                   const InterruptGuard& interrupt, const std::function<void(std::string_view)>& on_text);

}  // namespace kvasir::cli
