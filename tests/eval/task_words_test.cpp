// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/task_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

namespace kvasir {
namespace {

TEST(TaskWords, DependOnTheSeedAlone) {
  TaskWords first(5), again(5), other(6);
  for (int i = 0; i < 20; ++i) {
    const std::string word = first.word();
    EXPECT_EQ(word, again.word());
    EXPECT_NE(word, other.word());
  }
}

// A word that were a part of another would be found where only the other stands.
TEST(TaskWords, NoneIsAPartOfAnother) {
  TaskWords words(1);
  std::set<std::string> seen;
  for (int i = 0; i < 5000; ++i) {
    const std::string word = words.word();
    EXPECT_EQ(word.size(), 6u);
    EXPECT_TRUE(seen.insert(word).second) << word;
  }
}

TEST(TaskWords, Shapes) {
  TaskWords words(2);
  for (int i = 0; i < 200; ++i) {
    const std::string number = words.number(7), uuid = words.uuid(), key = words.key();
    EXPECT_EQ(number.size(), 7u);
    EXPECT_NE(number[0], '0');
    EXPECT_TRUE(std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); })) << number;
    ASSERT_EQ(uuid.size(), 36u);
    for (const size_t dash : {8u, 13u, 18u, 23u}) EXPECT_EQ(uuid[dash], '-') << uuid;
    EXPECT_EQ(uuid[14], '4') << uuid;
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
    EXPECT_EQ(key.size(), 13u);
    EXPECT_EQ(key[6], '-');
  }
  for (const char c : words.variable(5)) EXPECT_TRUE(c >= 'A' && c <= 'Z');
}

TEST(Shuffle, KeepsEveryItem) {
  std::vector<int> items(100), before;
  for (int i = 0; i < 100; ++i) items[size_t(i)] = i;
  before = items;
  SplitMix random(3);
  shuffle(items, random);
  EXPECT_NE(items, before);
  std::sort(items.begin(), items.end());
  EXPECT_EQ(items, before);
}

}  // namespace
}  // namespace kvasir
