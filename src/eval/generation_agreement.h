// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval generate`: how long greedy text through the cache under test stays the text that a base cache gives.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/eval_setup.h"

namespace kvasir {

struct GenerationOptions {
  EvalSetup setup;
  SourceSpec base = SourceSpec::parse("f16", CacheOptions());
  std::vector<std::string> prompts;  // empty: `count` prompts over the project's own document
  int count = 4;
  int64_t prompt_tokens = 1024;  // of each prompt made here; enough that pages are packed before the first new token
  int tokens = 512;              // generated for each prompt; an end-of-text token of the base ends it early
  uint64_t seed = 42;
};

// {"agreement" (0-1: positions with the same token, both running free), "first_difference" (mean index of the first
// token that differs; the number of tokens where none does), "identical" (share of prompts without a difference),
// "forced_agreement" (same likeliest token while fed the base's text), "n" (tokens), "prompts": [...],
// "bits_per_value", "bytes", "bytes_f16"}. A prompt's "distinct_tokens" are those of the base's text: where they are
// few, the model goes in a loop and agreement says little.
nlohmann::json run_generation_agreement(const GenerationOptions& options);

}  // namespace kvasir
