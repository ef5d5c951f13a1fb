// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/attention_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "attention/kernels.h"
#include "base/random.h"

namespace kvasir {
namespace {

struct Case {
  LayerGeometry layer;
  std::vector<int32_t> positions;
  std::vector<float> keys, q;  // [positions, dim], [tokens, heads, dim]
  int tokens;
  int64_t first;  // position of the first query

  Case(int heads, int kv_heads, int dim, int keys_count, int query_tokens, int64_t first_query, uint64_t seed)
      : tokens(query_tokens), first(first_query) {
    layer.heads = heads;
    layer.kv_heads = kv_heads;
    layer.key_dim = layer.value_dim = dim;
    layer.scale = 1.0f / std::sqrt(float(dim));
    SplitMix random(seed);
    for (int i = 0, p = 0; i < keys_count; ++i) positions.push_back(p += 1 + int(random.uniform() * 3));
    const auto fill = [&](std::vector<float>& x, int count) {
      for (int i = 0; i < count; ++i) x.push_back(float(2 * random.normal()));
    };
    fill(keys, keys_count * dim);
    fill(q, tokens * heads * dim);
  }
  HeadsView view() const { return {q.data(), int64_t(layer.heads) * layer.key_dim, layer.key_dim}; }

  // The definition, in double.
  std::vector<double> expected(int head, ScoreReduction reduction) const {
    std::vector<double> result(positions.size(), 0.0);
    const int group = layer.group(), dim = layer.key_dim;
    for (int t = 0; t < tokens; ++t)
      for (int g = 0; g < group; ++g) {
        std::vector<double> scores(positions.size(), -1e300);
        double total = 0;
        for (size_t i = 0; i < positions.size(); ++i) {
          if (positions[i] > first + t) continue;
          if (layer.window > 0 && positions[i] <= first + t - layer.window) continue;
          double dot = 0;
          for (int c = 0; c < dim; ++c)
            dot += double(q[size_t((t * layer.heads + head * group + g) * dim + c)]) *
                   double(keys[i * size_t(dim) + size_t(c)]);
          dot *= double(layer.scale);
          if (layer.softcap > 0) dot = double(layer.softcap) * std::tanh(dot / double(layer.softcap));
          total += std::exp(scores[i] = dot);
        }
        for (size_t i = 0; i < positions.size(); ++i) {
          const double share = scores[i] > -1e299 ? std::exp(scores[i]) / total : 0.0;
          if (reduction == ScoreReduction::most)
            result[i] = std::max(result[i], share);
          else
            result[i] += share / double(tokens * group);
        }
      }
    return result;
  }
};

void expect_scores(const Case& c, ScoreReduction reduction) {
  for (const SimdLevel level : kSimdLevels) {
    if (!simd_available(level)) continue;
    AttentionOptions options;
    options.simd = level;
    options.threads = 2;
    for (int head = 0; head < c.layer.kv_heads; ++head) {
      AttentionScores scores(c.layer, c.positions, c.keys, reduction);
      const int half = c.tokens / 2;  // in two calls
      scores.add(c.view(), head, half, c.first, options);
      HeadsView rest = c.view();
      rest.data += half * rest.token_stride;
      scores.add(rest, head, c.tokens - half, c.first + half, options);
      const std::vector<float> got = scores.scores();
      const std::vector<double> expected = c.expected(head, reduction);
      ASSERT_EQ(got.size(), expected.size());
      // A score's error is that of the dot product, sqrt(dim) eps |q||k| scale, in the exponent.
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(double(got[i]), expected[i], 3e-5 * expected[i] + 1e-9) << i << " " << to_string(level);
    }
  }
}

TEST(AttentionScores, AreTheDefinition) {
  for (const ScoreReduction reduction : {ScoreReduction::most, ScoreReduction::mean})
    for (const int keys : {1, 63, 64, 65, 200}) {
      expect_scores(Case(6, 2, 32, keys, 9, 1000, uint64_t(keys)), reduction);
      expect_scores(Case(4, 4, 48, keys, 70, 1000, uint64_t(keys)), reduction);
    }
}

TEST(AttentionScores, MaskWhatAQueryDoesNotSee) {
  Case causal(4, 2, 32, 100, 12, 60, 3);  // queries in the middle of the keys
  expect_scores(causal, ScoreReduction::most);
  expect_scores(causal, ScoreReduction::mean);
  causal.layer.window = 50;
  causal.layer.softcap = 1.5f;
  expect_scores(causal, ScoreReduction::most);
  expect_scores(causal, ScoreReduction::mean);
}

TEST(AttentionScores, MeansOfOneQuerySumToOne) {
  const Case c(1, 1, 64, 333, 1, 5000, 4);
  for (const ScoreReduction reduction : {ScoreReduction::most, ScoreReduction::mean}) {
    AttentionScores scores(c.layer, c.positions, c.keys, reduction);
    scores.add(c.view(), 0, 1, c.first, {});
    const std::vector<float> got = scores.scores();
    EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), 1.0, 1e-5);
  }
}

TEST(AttentionScores, UnseenTokensScoreZero) {
  const Case c(2, 1, 32, 20, 3, -5, 5);
  AttentionScores scores(c.layer, c.positions, c.keys, ScoreReduction::most);
  EXPECT_EQ(scores.scores(), std::vector<float>(20, 0.0f));
  scores.add(c.view(), 0, 3, c.first, {});  // all before the first key
  EXPECT_EQ(scores.scores(), std::vector<float>(20, 0.0f));
}

}  // namespace
}  // namespace kvasir
