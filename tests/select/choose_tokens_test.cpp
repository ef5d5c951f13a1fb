// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/choose_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "kvasir/error.h"
#include "select/key_difference.h"

namespace kvasir {
namespace {

std::vector<HeadScores> random_heads(int heads, int tokens, uint64_t seed) {
  SplitMix random(seed);
  std::vector<HeadScores> result(static_cast<size_t>(heads));
  for (HeadScores& head : result)
    for (int i = 0, p = 10; i < tokens; ++i) {
      head.positions.push_back(p += 1 + int(random.uniform() * 2));
      head.scores.push_back(float(int(random.uniform() * 20)));  // many ties
    }
  return result;
}

int64_t count(const std::vector<std::vector<int32_t>>& kept) {
  int64_t total = 0;
  for (const auto& head : kept) total += int64_t(head.size());
  return total;
}

// The rules, one token at a time: what is kept in any case, then the best of all that is left.
std::vector<std::vector<int32_t>> one_at_a_time(std::vector<HeadScores> heads, const ChoiceLimits& limits) {
  std::vector<std::vector<int32_t>> kept(heads.size());
  int64_t left = limits.budget;
  const auto take_best = [&](size_t first_head, size_t last_head) {
    int best_head = -1;
    size_t best = 0;
    for (size_t h = first_head; h < last_head; ++h)
      for (size_t i = 0; i < heads[h].positions.size(); ++i) {
        const auto better = [&] {
          const HeadScores& other = heads[size_t(best_head)];
          if (heads[h].scores[i] != other.scores[best]) return heads[h].scores[i] > other.scores[best];
          return heads[h].positions[i] < other.positions[best];
        };
        if (best_head < 0 || better()) best_head = int(h), best = i;
      }
    if (best_head < 0) return false;
    HeadScores& head = heads[size_t(best_head)];
    kept[size_t(best_head)].push_back(head.positions[best]);
    head.positions.erase(head.positions.begin() + int64_t(best));
    head.scores.erase(head.scores.begin() + int64_t(best));
    --left;
    return true;
  };
  for (size_t h = 0; h < heads.size(); ++h)
    while (!heads[h].positions.empty() && heads[h].positions.back() >= limits.recent) {
      kept[h].push_back(heads[h].positions.back());
      heads[h].positions.pop_back();
      heads[h].scores.pop_back();
      --left;
    }
  for (size_t h = 0; h < heads.size(); ++h)
    while (int64_t(kept[h].size()) < limits.head_floor && take_best(h, h + 1)) {
    }
  while (left > 0 && take_best(0, heads.size())) {
  }
  for (auto& head : kept) std::sort(head.begin(), head.end());
  return kept;
}

TEST(ChooseTokens, IsWhatTakingTheBestOneByOneGives) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<HeadScores> heads = random_heads(1 + int(seed % 4), 30, seed);
    for (const int64_t floor : {0, 3})
      for (const int32_t recent : {1000, 50}) {
        const int64_t least = int64_t(heads.size()) * 30 / 2 + 5;
        const ChoiceLimits limits{least, floor, recent};
        const auto kept = choose_tokens(heads, limits);
        EXPECT_EQ(kept, one_at_a_time(heads, limits)) << seed;
        EXPECT_EQ(count(kept), std::min<int64_t>(least, 30 * int64_t(heads.size())));
      }
  }
}

TEST(ChooseTokens, KeepsAllThatFits) {
  const std::vector<HeadScores> heads = random_heads(3, 20, 1);
  EXPECT_EQ(count(choose_tokens(heads, {1000, 0, 1000})), 60);
  EXPECT_EQ(count(choose_tokens(heads, {0, 0, 1000})), 0);
  EXPECT_EQ(count(choose_tokens(std::vector<HeadScores>(2), {10, 4, 0})), 0);
}

TEST(ChooseTokens, RefusesWhatCanNotBe) {
  std::vector<HeadScores> heads = random_heads(2, 20, 2);
  EXPECT_THROW(choose_tokens(heads, {39, 0, 0}), Error);    // all are recent
  EXPECT_THROW(choose_tokens(heads, {7, 4, 1000}), Error);  // floors
  heads[1].scores[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(choose_tokens(heads, {10, 0, 1000}), Error);
}

TEST(KeyDifference, ScoresTheOddOneOut) {
  std::vector<float> keys;
  for (int t = 0; t < 50; ++t) {
    const bool odd = t == 17;
    keys.insert(keys.end(), {odd ? -1.0f : 1.0f, odd ? 3.0f : 0.01f * float(t), 0.0f});
  }
  const std::vector<float> scores = key_difference_scores(keys, 3);
  EXPECT_EQ(std::max_element(scores.begin(), scores.end()) - scores.begin(), 17);
  for (float& x : keys) x *= 1e3f;
  const std::vector<float> scaled = key_difference_scores(keys, 3);
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scaled[i], scores[i], 1e-6) << "lengths don't count";
  EXPECT_EQ(key_difference_scores(std::vector<float>(6, 0.0f), 3), std::vector<float>(2, 1.0f));
}

}  // namespace
}  // namespace kvasir
