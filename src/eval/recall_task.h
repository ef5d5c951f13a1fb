// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval recall`: a long conversation is kept in some way, and asked about at its end. Conversations are made here
// (eval/dialogue.h) or come from files (eval/conversation_file.h). Each is read once for each method; every question
// starts from the same state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "episode/episodes.h"
#include "eval/eval_setup.h"

namespace kvasir {

struct RecallOptions {
  EvalSetup setup;
  std::vector<std::string> methods = {"full"};  // eval/memory_method.h
  std::vector<std::string> files;               // LoCoMo, RealTalk; empty: conversations made here
  bool cut = false;         // files: of a conversation that is too long, the utterances that fit, and their questions
  int questions = 0;        // of a file's conversation, spread over them; 0: all
  double budget_ratio = 0;  // of a conversation's tokens, what methods other than `full` may keep ...
  int64_t budget = 0;       // ... or so many tokens: one of the two, where a method needs it
  int block = 0;            // tokens read between two selections; 0: as the budget, 128 to 1024
  int episodes = 4;         // epicache
  int representatives = kRepresentatives;
  bool match_centroids = false;   // epicache: the nearest centroid's episode answers, not the nearest segment's
  double alpha = 0;               // of layer budgets; 0: all layers keep the same
  std::string encoder = "words";  // epicache, rag: words, hidden, or a GGUF embedding model
  int64_t length = 4096;          // made here: tokens of dialogue, question and answer together; at most setup.context
  // Made here: topics; facts planted and asked for; how many of them change later. 0, 0 and -1: what the length has
  // room for, 2 to 12 topics with two facts each, one in four of which changes.
  int topics = 0, facts = 0, updates = -1;
  int chats = 1;
  int answer_tokens = 32;
  uint64_t seed = 42;
};

// What can be checked without a model; run_recall does it too. Throws Error invalid_argument, for a method that doesn't
// exist among others.
void check_recall(const RecallOptions& options);

// {"score" (of the first method), "n", "methods" {name: {"score", "score_se", "n", "answer_logprob", "bytes",
// "bytes_f16", "bits_per_value", "peak_bytes", "tokens_read", "reading_seconds", "asking_seconds", "updated" {"score",
// "n", "stale"}, "routed", "scores" [n], "answer_logprobs" [n], "against_first" {"score", "score_se", "answer_logprob",
// "answer_logprob_se"}}}, "cells": [{"method", "depth" or "category", "score", "n", "answer_logprob"}]}; depth is
// the fifth of the conversation (0, 20 .. 80 per cent) in which the fact was told. Scores are the share of right
// answers, for files the F1 of words; "stale" is the share of answers that give a value which has changed since,
// "routed" the share of questions whose episode is about an utterance that answers them. "against_first" has the mean
// differences from the first method, question by question, and their standard errors: questions are far less alike
// than the methods' answers to one of them.
nlohmann::json run_recall(const RecallOptions& options);

}  // namespace kvasir
