// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval recall --synthetic`: a long chat in which the user mentions facts in passing, and asks for them at its end. The
// chat is read once; each question starts from the same state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/eval_setup.h"

namespace kvasir {

struct RecallOptions {
  EvalSetup setup;
  // How the past is kept: "full" keeps every token, in the codec of setup.kv.
  std::vector<std::string> methods = {"full"};
  double budget_ratio = 1.0;  // share of the tokens that methods other than "full" may keep
  int64_t length = 4096;      // tokens of chat, question and answer together; at most setup.context
  int facts = 12;             // planted in each chat and asked for
  int chats = 1;
  int answer_tokens = 32;
  uint64_t seed = 42;
};

std::vector<std::string> recall_methods();

// What can be checked without a model; run_recall does it too. Throws Error invalid_argument, for a method that doesn't
// exist among others.
void check_recall(const RecallOptions& options);

// {"score" (of the first method), "n", "methods" {name: {"score", "score_se", "n", "answer_logprob", "bytes",
// "bytes_f16", "bits_per_value"}}, "cells": [{"method", "depth", "score", "n", "answer_logprob"}]}; depth is the fifth
// of the chat (0, 20 .. 80 per cent) in which the fact was told.
nlohmann::json run_recall(const RecallOptions& options);

}  // namespace kvasir
