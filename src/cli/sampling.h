// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp's samplers over a row of logits, with its defaults.
#pragma once

#include <llama-cpp.h>

#include <cstdint>
#include <span>
#include <vector>

namespace CLI {
class App;
}

namespace kvasir::cli {

struct SamplingFlags {
  double temperature = 0.8;  // --temp; 0: always the likeliest token
  int top_k = 40;            // --top-k; 0: all
  double top_p = 0.95;       // --top-p
  double min_p = 0.05;       // --min-p
  int64_t seed = -1;         // --seed; -1: a random one
};

void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// Throws Error invalid_argument.
void check_sampling_flags(const SamplingFlags& flags);

class Sampler {
 public:
  explicit Sampler(const SamplingFlags& flags);

  // Throws Error internal where the logits hold a NaN: a broken run must not go on as text.
  int32_t sample(std::span<const float> logits);
  uint32_t seed() const { return seed_; }  // the one really used

 private:
  uint32_t seed_;
  bool greedy_;
  llama_sampler_ptr chain_;
  std::vector<llama_token_data> candidates_;
};

}  // namespace kvasir::cli
