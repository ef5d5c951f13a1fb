// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

namespace kvasir {
namespace {

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Document, DependsOnTheSeedAlone) {
  EXPECT_EQ(write_document(7, 20).text, write_document(7, 20).text);
  EXPECT_NE(write_document(7, 20).text, write_document(8, 20).text);
}

TEST(Document, LongerBookBeginsWithTheShorter) {
  const Document book = write_document(1, 100), part = write_document(1, 37);
  EXPECT_TRUE(book.text.starts_with(part.text));
  ASSERT_LE(part.facts.size(), book.facts.size());
  for (size_t i = 0; i < part.facts.size(); ++i) EXPECT_EQ(part.facts[i].sentence, book.facts[i].sentence);
}

TEST(Document, FactsAreStatedOnce) {
  const Document book = write_document(3, 400);
  EXPECT_EQ(book.facts.size(), size_t(kMostFacts));
  std::set<std::string> questions;
  for (const PlantedFact& fact : book.facts) {
    EXPECT_EQ(book.text.compare(fact.offset, fact.sentence.size(), fact.sentence), 0);
    EXPECT_EQ(occurrences(book.text, fact.answer), 1u) << fact.answer;
    EXPECT_NE(fact.sentence.find(fact.answer), std::string::npos);
    questions.insert(fact.question);
  }
  EXPECT_EQ(questions.size(), book.facts.size());
}

TEST(Document, IsPlainText) {
  const Document book = write_document(5, 60);
  for (const char c : book.text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << int(c);
  EXPECT_EQ(occurrences(book.text, "  "), 0u);
}

// Days are records, not copies: no two in a year are the same, and neither are those of neighbouring seeds.
TEST(Document, DaysDiffer) {
  std::set<std::string> days;
  size_t count = 0;
  for (const uint64_t seed : {1, 2}) {
    std::istringstream lines(write_document(seed, 365).text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("Day ")) continue;
      days.insert(line.substr(line.find('.')));
      ++count;
    }
  }
  EXPECT_EQ(count, 730u);
  EXPECT_EQ(days.size(), count);
}

}  // namespace
}  // namespace kvasir
