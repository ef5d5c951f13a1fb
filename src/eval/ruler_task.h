// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval ruler`: the eleven tasks of RULER (arXiv 2404.06654) that need no data set. Instructions are in words of our
// own and the words are made of syllables, so scores compare methods with each other, not with published tables.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/eval_setup.h"

namespace kvasir {

struct RulerOptions {
  EvalSetup setup;                        // with `oracle`, setup.model may be null: 4 bytes are then one token
  std::vector<std::string> tasks;         // empty: all of ruler_task_names()
  std::vector<int64_t> lengths = {4096};  // tokens of prompt and answer together; at most setup.context
  int samples = 3;                        // for each task and length
  std::string text;                       // filler of the essay tasks; empty: the project's own document
  uint64_t seed = 42;
  bool oracle = false;      // a solver that reads the answer out of the prompt stands in for the model
  bool no_context = false;  // the question alone: what can be guessed
};

// niah_single_1 .. fwe, in RULER's order.
std::vector<std::string> ruler_task_names();

// {"score" (0-1: mean over tasks and lengths), "n", "answer_logprob", "tasks" {name: {"score", "n"}},
// "cells": [{"task", "length", "score", "score_se", "n", "answer_logprob", "prompt_tokens"}], "bits_per_value", ...}.
// Throws Error invalid_argument for an unknown task or a length that a task doesn't fit into.
nlohmann::json run_ruler(const RulerOptions& options);

}  // namespace kvasir
