// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/answer_f1.h"

#include <gtest/gtest.h>

namespace kvasir {
namespace {

TEST(AnswerF1, AsEpicacheScores) {
  EXPECT_EQ(answer_f1("Paris", "paris"), 1.0);
  EXPECT_EQ(answer_f1("The cat!", "a cat"), 1.0);
  EXPECT_EQ(answer_f1("two dogs", "2 dogs"), 1.0);
  EXPECT_EQ(answer_f1("ten", "10"), 0.0);  // only zero to nine
  EXPECT_EQ(answer_f1("on 7 May 2023", "7 May 2023"), 2.0 * 3 / 7);
  EXPECT_EQ(answer_f1("dog dog dog", "dog dog cat"), 2.0 * 2 / 6);
  EXPECT_EQ(answer_f1("it's", "its"), 1.0);
  EXPECT_EQ(answer_f1("self-care", "self care"), 0.0);
  EXPECT_EQ(answer_f1("cats and dogs", "cats, dogs"), 2.0 * 2 / 5);
  EXPECT_EQ(answer_f1("painting", "paintings"), 0.0);
  EXPECT_EQ(answer_f1("", "x"), 0.0);
  EXPECT_EQ(answer_f1("the", "a"), 0.0);
  EXPECT_EQ(answer_f1("caf\xc3\xa9 \xff", "caf\xc3\xa9"), 2.0 * 1 / 3);
}

TEST(LocomoF1, StemsAndDropsAnd) {
  EXPECT_EQ(locomo_f1("painting", "paintings", 4), 1.0);
  EXPECT_EQ(locomo_f1("cats and dogs", "cat, dog", 2), 1.0);
  EXPECT_EQ(locomo_f1("two dogs", "2 dogs", 4), 0.5);
}

TEST(LocomoF1, Categories) {
  // Best parts: 1 for "hiking", 2/3 for "beach" against "the sunny beach".
  EXPECT_DOUBLE_EQ(locomo_f1("hikes, the sunny beach, tea", "hiking, beach", 1), (1.0 + 2.0 / 3.0) / 2.0);
  EXPECT_DOUBLE_EQ(locomo_f1("hikes, the sunny beach, tea", "hiking, beach", 4), 2.0 * 2 / 6);
  EXPECT_EQ(locomo_f1("beach", "beach,", 1), 0.5);  // the part after the last comma is one too
  EXPECT_EQ(locomo_f1("likely no", "Likely no; she prefers the sea", 3), 1.0);
  EXPECT_LT(locomo_f1("likely no", "Likely no; she prefers the sea", 2), 1.0);
  EXPECT_EQ(locomo_f1("That is Not Mentioned.", "", 5), 1.0);
  EXPECT_EQ(locomo_f1("purple", "purple", 5), 0.0);
  EXPECT_EQ(locomo_f1("", "", 1), 0.0);
}

}  // namespace
}  // namespace kvasir
