// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A chat about a harbour's day book, in which the user mentions facts about their own life in passing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

struct ChatFact {
  std::string statement;  // the user's sentence
  std::string question;
  std::string answer_prefix;
  std::string answer;
  double depth = 0;  // share of the chat's turns before the one that tells it, 0-1
};

struct RecallChat {
  std::vector<Model::Message> messages;  // user and assistant in turn
  std::vector<ChatFact> facts;
};

inline constexpr int kMostChatFacts = 24;

// `turns` exchanges, the facts spread evenly over them. Deterministic; the facts don't depend on `turns`.
RecallChat make_recall_chat(uint64_t seed, int64_t turns, int facts);

}  // namespace kvasir
