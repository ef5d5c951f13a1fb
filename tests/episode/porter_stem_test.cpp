// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/porter_stem.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace kvasir {
namespace {

// Porter's own examples, taken through all steps, and what NLTK does otherwise. (All 69,559 words of a larger list,
// real and made up, once came out as NLTK 3.10's.)
TEST(PorterStem, KnownWords) {
  const std::pair<const char*, const char*> cases[] = {{"caresses", "caress"},    {"ponies", "poni"},
                                                       {"caress", "caress"},      {"cats", "cat"},
                                                       {"feed", "feed"},          {"agreed", "agre"},
                                                       {"plastered", "plaster"},  {"bled", "bled"},
                                                       {"motoring", "motor"},     {"sing", "sing"},
                                                       {"conflated", "conflat"},  {"troubled", "troubl"},
                                                       {"sized", "size"},         {"hopping", "hop"},
                                                       {"tanned", "tan"},         {"falling", "fall"},
                                                       {"hissing", "hiss"},       {"fizzed", "fizz"},
                                                       {"failing", "fail"},       {"filing", "file"},
                                                       {"happy", "happi"},        {"sky", "sky"},
                                                       {"relational", "relat"},   {"rational", "ration"},
                                                       {"digitizer", "digit"},    {"radically", "radic"},
                                                       {"operator", "oper"},      {"feudalism", "feudal"},
                                                       {"decisiveness", "decis"}, {"hopefulness", "hope"},
                                                       {"formality", "formal"},   {"sensitivity", "sensit"},
                                                       {"triplicate", "triplic"}, {"formative", "form"},
                                                       {"electrical", "electr"},  {"goodness", "good"},
                                                       {"allowance", "allow"},    {"adjustment", "adjust"},
                                                       {"adoption", "adopt"},     {"replacement", "replac"},
                                                       {"probate", "probat"},     {"rate", "rate"},
                                                       {"cease", "ceas"},         {"controlling", "control"},
                                                       {"roll", "roll"},          {"dies", "die"},
                                                       {"dying", "die"},          {"enjoy", "enjoy"},
                                                       {"apology", "apolog"},     {"by", "by"},
                                                       {"spied", "spi"},          {"news", "news"}};
  for (const auto& [word, stem] : cases) EXPECT_EQ(porter_stem(word), stem) << word;
}

TEST(PorterStem, OtherBytesPass) {
  EXPECT_EQ(porter_stem(""), "");
  EXPECT_EQ(porter_stem("\xc3\xa9t\xc3\xa9"), "\xc3\xa9t\xc3\xa9");
  EXPECT_EQ(porter_stem("\xff\xfe\xfd"), "\xff\xfe\xfd");
  EXPECT_EQ(porter_stem("2023"), "2023");
  EXPECT_EQ(porter_stem("yyyyy"), "yyyyy");
}

}  // namespace
}  // namespace kvasir
