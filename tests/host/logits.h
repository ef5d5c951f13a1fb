// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Logits of an engine and of llama.cpp's own cache, side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir::test {

using Logits = std::vector<std::vector<float>>;  // [tokens][vocabulary]

// `count` tokens of the vocabulary, random but the same each time.
std::vector<int32_t> random_tokens(int count, int vocabulary, uint64_t seed);

EngineOptions plain_options(int64_t context, int micro_batch, const std::string& codec = "f16");

// All logits of `tokens` in one sequence: the first `prompt` in one decode, the rest one by one.
Logits native_logits(std::shared_ptr<Model> model, std::span<const int32_t> tokens, int prompt, int micro_batch);
Logits engine_logits(Engine& engine, SequenceId sequence, std::span<const int32_t> tokens, int prompt);

struct Distance {
  double error = 0;       // largest |a - b|, in units of the root mean square of all of b
  double divergence = 0;  // mean KL(b || a) in nats
  double top1 = 0;        // share of tokens with the same first choice
  size_t worst_token = 0, worst_entry = 0;
};
Distance distance(const Logits& a, const Logits& b);

}  // namespace kvasir::test
