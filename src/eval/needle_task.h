// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval needle`: a sentence hidden in a long text and asked for afterwards, over a grid of lengths and depths. The
// question comes after the text, so nothing that compresses the text can know it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/eval_setup.h"

namespace kvasir {

enum class NeedleMode : uint8_t {
  single,  // one needle in each haystack
  multi,   // one needle at every depth of the grid in the same haystack, each asked for; the haystack is read once
};

struct NeedleOptions {
  EvalSetup setup;
  std::vector<int64_t> lengths = {4096};              // tokens of prompt and answer together; at most setup.context
  std::vector<double> depths = {10, 30, 50, 70, 90};  // per cent of the haystack before the needle
  NeedleMode mode = NeedleMode::single;
  int repeats = 1;         // haystacks for each length, each with its own words and numbers
  int answer_tokens = 32;  // most tokens of an answer
  std::string text;        // filler; empty: the project's own document (eval/document.h)
  uint64_t seed = 42;
};

// {"score" (0-1), "score_se", "n", "answer_logprob" (mean log-likelihood of the right answer per token),
// "answer_logprob_se", "cells": [{"length", "depth", "score", "n", "answer_logprob"}], "bits_per_value", "bytes",
// "bytes_f16"}: sizes are those at the longest length.
// Throws Error invalid_argument for a length too short to hold needle and question or beyond the context.
nlohmann::json run_needle(const NeedleOptions& options);

}  // namespace kvasir
