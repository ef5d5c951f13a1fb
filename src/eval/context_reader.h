// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a context once and answers questions about it, each from the same state: Kvasir's cache forks (packed pages are
// shared), llama.cpp's own is filled again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/eval_setup.h"

namespace kvasir {

struct CacheUse {
  double bits_per_value = 0;  // windows, scales and protections counted, at the length of the last question
  size_t bytes = 0, bytes_f16 = 0;
};

struct ReadAnswer {
  std::string text;                 // greedy
  double right_log_likelihood = 0;  // of the right answer, in nats, summed over its tokens
  size_t right_tokens = 0;
};

// Asked once the question is in the cache.
struct ReadQuestion {
  std::span<const int32_t> tokens;        // appended to the context for this question alone
  std::span<const int32_t> right_answer;  // what the log-likelihood is taken of
  int most_tokens = 32;                   // of the greedy answer
  // Looked at after each token: true ends the answer early, where more text couldn't change its score.
  std::function<bool(std::string_view text)> enough;
};

class ContextReader {
 public:
  virtual ~ContextReader() = default;
  virtual void restart() = 0;                                // an empty context
  virtual void read(std::span<const int32_t> tokens) = 0;    // appends to the context
  virtual ReadAnswer ask(const ReadQuestion& question) = 0;  // leaves the context as it is
  virtual CacheUse use() const = 0;
  virtual const Cache* cache() const { return nullptr; }  // null for llama.cpp's own
};

// `context` tokens fit. Calls setup.on_cache. Throws Error invalid_argument for an unknown ggml type.
std::unique_ptr<ContextReader> make_reader(const EvalSetup& setup, int64_t context);

// Asks in a fork of an engine's sequence, which stays as it is. `use`, where given, is that of the question's end.
ReadAnswer ask_in_fork(Engine& engine, SequenceId context, const ReadQuestion& question, CacheUse* use = nullptr);

// The likeliest token. Throws Error internal for a NaN: a broken run must not look like an answer.
int32_t likeliest(std::span<const float> logits);

}  // namespace kvasir
