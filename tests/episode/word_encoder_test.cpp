// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "episode/word_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kvasir/error.h"

namespace kvasir {
namespace {

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

const std::vector<std::string> kTexts = {
    "Ada said, \"The tomatoes in the garden are ripe.\"", "Ada said, \"I planted beans in the garden beds.\"",
    "Ada said, \"The train to Lisbon leaves at noon.\"", "Ada said, \"Our train was late on the way to Porto.\""};

TEST(WordEncoder, WordsAreStemmedAndFunctionWordsGone) {
  EXPECT_EQ(topic_words("Ada said, \"I don't have the GARDENS' keys\""),
            (std::vector<std::string>{"ada", "garden", "key"}));
  EXPECT_EQ(topic_words("caf\xc3\xa9 \xff\xfe!"), (std::vector<std::string>{"caf\xc3\xa9", "\xff\xfe"}));
  EXPECT_TRUE(topic_words("").empty());
  EXPECT_TRUE(topic_words("... a I ?").empty());
}

TEST(WordEncoder, OneTopicIsCloserThanTwo) {
  WordEncoder encoder;
  encoder.learn(kTexts);
  const auto vectors = encoder.encode_segments(kTexts);
  EXPECT_GT(dot(vectors[0], vectors[1]), dot(vectors[0], vectors[2]) + 0.05);
  EXPECT_GT(dot(vectors[2], vectors[3]), dot(vectors[1], vectors[3]) + 0.05);
  const std::vector<float> query = encoder.encode_query("When does the train leave?");
  EXPECT_GT(dot(query, vectors[2]), 0.3);
  EXPECT_NEAR(dot(query, vectors[0]), 0, 0.15);
  for (const auto& vector : vectors) EXPECT_NEAR(dot(vector, vector), 1.0, 1e-6);
}

TEST(WordEncoder, WhatAllSegmentsHoldWeighsNothing) {
  WordEncoder encoder;
  encoder.learn(kTexts);
  EXPECT_EQ(dot(encoder.encode_query("Ada"), encoder.encode_query("Ada")), 0.0);
  EXPECT_EQ(encoder.encode_query("Ada beans"), encoder.encode_query("beans"));
  encoder.learn({});
  EXPECT_NE(encoder.encode_query("Ada beans"), encoder.encode_query("beans"));
}

// A signed sum over 4,096 places: two texts of 200 different words have a cosine of mean 0 and deviation 1/64.
TEST(WordEncoder, CollisionsAreNoise) {
  WordEncoder encoder;
  double square = 0;
  for (int pair = 0; pair < 200; ++pair) {
    std::string texts[2];
    for (int side = 0; side < 2; ++side)
      for (int i = 0; i < 200; ++i)
        texts[side] += "w" + std::to_string(pair) + (side == 0 ? "a" : "b") + std::to_string(i) + "x ";
    const double cosine = dot(encoder.encode_query(texts[0]), encoder.encode_query(texts[1]));
    square += cosine * cosine;
  }
  EXPECT_NEAR(std::sqrt(square / 200) * 64, 1.0, 0.2);  // four deviations of a root mean square of 200
}

TEST(WordEncoder, SameTextsSameBits) {
  WordEncoder first, second;
  first.learn(kTexts);
  second.learn({});
  second.learn(kTexts);
  EXPECT_EQ(first.encode_segments(kTexts), second.encode_segments(kTexts));
  EXPECT_EQ(first.encode_query(kTexts[1]), first.encode_segments(kTexts)[1]);
  EXPECT_EQ(first.name(), "words-4096");
}

TEST(WordEncoder, NothingToGoBy) {
  WordEncoder encoder(16);
  encoder.learn({});
  EXPECT_EQ(encoder.encode_query("the?"), std::vector<float>(16));
  EXPECT_TRUE(encoder.encode_segments({}).empty());
  EXPECT_THROW(WordEncoder(0), Error);
}

}  // namespace
}  // namespace kvasir
