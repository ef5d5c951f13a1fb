// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/recall_chat.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvasir {
namespace {

std::string all_text(const RecallChat& chat) {
  std::string text;
  for (const Model::Message& message : chat.messages) text += message.content + "\n";
  return text;
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RecallChat, EveryFactIsToldOnceInOrder) {
  for (const int64_t turns : {1, 5, 12, 40}) {
    const RecallChat chat = make_recall_chat(3, turns, 12);
    EXPECT_EQ(chat.messages.size(), size_t(2 * turns));
    ASSERT_EQ(chat.facts.size(), 12u);
    const std::string text = all_text(chat);
    double depth = 0;
    for (const ChatFact& fact : chat.facts) {
      EXPECT_EQ(occurrences(text, fact.statement), 1u) << fact.statement << " in " << turns;
      EXPECT_EQ(occurrences(text, fact.answer), 1u) << fact.answer;
      EXPECT_EQ(occurrences(fact.question + fact.answer_prefix, fact.answer), 0u);
      EXPECT_GE(fact.depth, depth);
      EXPECT_LT(fact.depth, 1.0);
      depth = fact.depth;
    }
    EXPECT_GE(depth, turns == 1 ? 0.0 : 0.8);
  }
}

TEST(RecallChat, RolesTakeTurns) {
  const RecallChat chat = make_recall_chat(1, 6, 4);
  for (size_t i = 0; i < chat.messages.size(); ++i) EXPECT_EQ(chat.messages[i].role, i % 2 == 0 ? "user" : "assistant");
}

TEST(RecallChat, FactsDependOnTheSeedAlone) {
  const RecallChat longer = make_recall_chat(9, 30, 24), shorter = make_recall_chat(9, 10, 24);
  const RecallChat other = make_recall_chat(10, 30, 24);
  std::set<std::string> questions;
  for (size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(longer.facts[i].answer, shorter.facts[i].answer);
    EXPECT_NE(longer.facts[i].answer, other.facts[i].answer);
    questions.insert(longer.facts[i].question);
  }
  EXPECT_EQ(questions.size(), 24u);
}

}  // namespace
}  // namespace kvasir
