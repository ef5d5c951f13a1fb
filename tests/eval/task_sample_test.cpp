// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/task_sample.h"

#include <gtest/gtest.h>

#include "eval/filler.h"
#include "eval/hidden_needle.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

TEST(AnswerScore, IsTheShareFoundWithoutRegardToCase) {
  EXPECT_EQ(answer_score("The names are VELORA and tanubi.", {"velora", "Tanubi"}), 1.0);
  EXPECT_EQ(answer_score("velora", {"velora", "tanubi", "misoka", "denila"}), 0.25);
  EXPECT_EQ(answer_score("nothing of the kind", {"velora"}), 0.0);
  EXPECT_EQ(answer_score("1234567", {"123456"}), 1.0);  // substring, as RULER has it
  EXPECT_EQ(answer_score("", {"x"}), 0.0);
  EXPECT_EQ(answer_score("anything", {}), 0.0);
}

TEST(LargestThatFits, IsExactFromAnyGuess) {
  const auto size = [](int64_t n) { return 10 + 7 * n; };
  for (const int64_t guess : {0, 1, 12, 13, 14, 500}) {
    EXPECT_EQ(largest_that_fits(1, guess, 101, size), 13) << guess;  // 10 + 7 * 13 = 101
    EXPECT_EQ(largest_that_fits(1, guess, 100, size), 12) << guess;
  }
  EXPECT_EQ(largest_that_fits(1, 5, 17, size), 1);
  EXPECT_EQ(largest_that_fits(1, 5, 16, size), -1);
}

std::string join(const Filler& filler, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += filler.sentence(i);
  return text;
}

TEST(Filler, CutsBetweenSentencesAndLosesNothing) {
  const std::string text = "One is 3.5 long. Two?\n\nThree! four";
  const Filler filler = Filler::text(text);
  ASSERT_EQ(filler.size(), 4u);
  EXPECT_EQ(filler.sentence(0), " One is 3.5 long.");
  EXPECT_EQ(filler.sentence(2), "\n\nThree!");
  EXPECT_EQ(join(filler, 4), " " + text);
  EXPECT_EQ(filler.sentence(4), filler.sentence(0));  // begins again
}

TEST(Filler, CutsTextWithoutFullStops) {
  std::string words, unbroken;
  for (int i = 0; i < 2000; ++i) words += "word ", unbroken += "\u00e9";
  for (const std::string& text : {words, unbroken}) {
    const Filler filler = Filler::text(text);
    EXPECT_GT(filler.size(), 4u);
    for (size_t i = 0; i < filler.size(); ++i) {
      EXPECT_LT(filler.sentence(i).size(), 900u);
      EXPECT_NE(static_cast<unsigned char>(filler.sentence(i)[0]) & 0xc0, 0x80);  // not inside a character
    }
  }
  EXPECT_THROW(Filler::text(" \n "), Error);
}

TEST(HiddenNeedle, IsReadBackFromItsOwnSentences) {
  const std::string context = "Nothing here. " + needle_sentence({"velora-tanubi", "1234567"}, "numbers") + " " +
                              needle_sentence({"misoka-denila", "7654321"}, "numbers") + " " +
                              needle_sentence({"velora-tanubi", "1111111"}, "numbers");
  const auto values = [&](const std::vector<std::string>& keys) {
    return find_needle_values(context, needle_question(keys, "numbers", keys.size() > 1));
  };
  EXPECT_EQ(values({"misoka-denila"}), std::vector<std::string>({"7654321"}));
  EXPECT_EQ(values({"velora-tanubi"}), std::vector<std::string>({"1234567", "1111111"}));
  EXPECT_EQ(values({"misoka-denila", "velora-tanubi"}).size(), 3u);
  EXPECT_TRUE(values({"nobody-knows"}).empty());
}

}  // namespace
}  // namespace kvasir
