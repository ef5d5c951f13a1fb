// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/window_moments.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "tests/calibrate/sample_layer.h"

namespace kvasir {
namespace {

using test::attention_of;
using test::sample_layer;
using test::SampleLayer;

struct Case {
  const char* name;
  LayerGeometry geometry;
  int tokens, sink, recent;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain",
       {.heads = 4, .kv_heads = 2, .key_dim = 16, .value_dim = 24, .scale = 0.25f, .sink_logits = {}},
       150,
       0,
       0},
      {"sink",
       {.heads = 4, .kv_heads = 2, .key_dim = 16, .value_dim = 16, .scale = 0.25f, .sink_logits = {}},
       130,
       16,
       0},
      {"sink past a page",
       {.heads = 1, .kv_heads = 1, .key_dim = 8, .value_dim = 8, .scale = 0.3f, .sink_logits = {}},
       100,
       70,
       0},
      {"window",
       {.heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 8, .scale = 0.3f, .window = 37, .sink_logits = {}},
       140,
       3,
       9},
      {"soft-cap",
       {.heads = 2, .kv_heads = 2, .key_dim = 24, .value_dim = 8, .scale = 0.5f, .softcap = 2, .sink_logits = {}},
       90,
       5,
       40},
      {"sinks",
       {.heads = 4, .kv_heads = 2, .key_dim = 16, .value_dim = 8, .scale = 0.25f, .sink_logits = {2, -1, 0, 5}},
       90,
       4,
       1},
  };
  return all;
}

void add_product(std::vector<double>& sums, const float* x, int dim, double weight) {
  for (int i = 0; i < dim; ++i)
    for (int j = 0; j < dim; ++j) sums[size_t(i * dim + j)] += weight * double(x[i]) * double(x[j]);
}

void add_row(std::vector<double>& sums, const float* x, double weight) {
  for (size_t c = 0; c < sums.size(); ++c) sums[c] += weight * double(x[c]);
}

// The sums as kvasir's header defines them, one after the other.
HeadMoments plain_sums(const SampleLayer& layer, int head, const Case& one) {
  const int sink = one.sink;
  const LayerGeometry& shape = layer.geometry;
  HeadMoments sums = LayerMoments(shape).heads[0];
  const int dk = shape.key_dim, dv = shape.value_dim;
  std::vector<double> a(size_t(layer.tokens), 0.0), b(size_t(layer.tokens), 0.0);
  for (int t = sink; t < layer.tokens; ++t)
    for (int g = 0; g < shape.group(); ++g) {
      const int query_head = head * shape.group() + g;
      sums.queries += 1;
      add_product(sums.query, layer.q.data() + (t * shape.heads + query_head) * dk, dk, 1);
      add_product(sums.output, layer.out.data() + (t * shape.heads + query_head) * dv, dv, 1);
      const std::vector<double> p = attention_of(layer, t, query_head);
      double paid = 0;
      for (int s = sink; s <= t - one.recent; ++s) {
        a[size_t(s)] += p[size_t(s)];
        b[size_t(s)] += p[size_t(s)] * p[size_t(s)];
        paid += p[size_t(s)];
      }
      add_product(sums.attended_query, layer.q.data() + (t * shape.heads + query_head) * dk, dk, paid);
    }
  std::vector<double> energy(size_t(layer.tokens), 0.0);
  double total = 0;
  for (int t = sink; t < layer.tokens; ++t) {
    const float* k = layer.k.data() + (t * shape.kv_heads + head) * dk;
    for (int i = 0; i < dk; ++i)
      for (int j = 0; j < dk; ++j) energy[size_t(t)] += double(k[i]) * sums.query[size_t(i * dk + j)] * double(k[j]);
    total += energy[size_t(t)];
  }
  for (int t = sink; t < layer.tokens; ++t) {
    const float* k = layer.k.data() + (t * shape.kv_heads + head) * dk;
    const float* v = layer.v.data() + (t * shape.kv_heads + head) * dv;
    sums.tokens += 1;
    sums.attention += a[size_t(t)];
    sums.squares += b[size_t(t)];
    add_row(sums.key_sum, k, 1);
    add_row(sums.attended_key_sum, k, a[size_t(t)]);
    add_row(sums.value_sum, v, 1);
    add_product(sums.key, k, dk, 1);
    add_product(sums.attended_key, k, dk, a[size_t(t)]);
    add_product(sums.value, v, dv, 1);
    add_product(sums.attended_value, v, dv, b[size_t(t)]);
    add_product(sums.proxy_value, v, dv, energy[size_t(t)] * (layer.tokens - sink) / total);
  }
  return sums;
}

// The largest difference, over the largest number of the sums.
double difference(const std::vector<double>& got, const std::vector<double>& expected) {
  double most = 0, size = 0;
  EXPECT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(got[i] - expected[i]));
    size = std::max(size, std::abs(expected[i]));
  }
  return most / size;
}

// `exact`: sums that are made in double. `attended`: those that attention in float goes into, relative error of one
// p: that of its score, |s| d eps and what exp and the sum add.
void expect_near(const HeadMoments& got, const HeadMoments& expected, double exact, double attended,
                 const std::string& name) {
  EXPECT_EQ(got.tokens, expected.tokens) << name;
  EXPECT_EQ(got.queries, expected.queries) << name;
  EXPECT_NEAR(got.attention, expected.attention, attended * expected.attention) << name;
  EXPECT_NEAR(got.squares, expected.squares, 2 * attended * expected.squares) << name;
  EXPECT_LE(difference(got.key_sum, expected.key_sum), exact) << name;
  EXPECT_LE(difference(got.value_sum, expected.value_sum), exact) << name;
  EXPECT_LE(difference(got.key, expected.key), exact) << name;
  EXPECT_LE(difference(got.query, expected.query), exact) << name;
  EXPECT_LE(difference(got.value, expected.value), exact) << name;
  EXPECT_LE(difference(got.output, expected.output), exact) << name;
  EXPECT_LE(difference(got.proxy_value, expected.proxy_value), exact) << name;
  EXPECT_LE(difference(got.attended_query, expected.attended_query), attended) << name;
  EXPECT_LE(difference(got.attended_key, expected.attended_key), attended) << name;
  EXPECT_LE(difference(got.attended_value, expected.attended_value), 2 * attended) << name;
}

constexpr double kExact = 1e3 * DBL_EPSILON, kAttended = 1e3 * FLT_EPSILON / 8;

LayerMoments in_pieces(const SampleLayer& layer, const Case& one, int piece, int threads) {
  LayerMoments moments(layer.geometry);
  WindowMoments window(layer.geometry, layer.tokens, one.sink, one.recent);
  for (int first = 0; first < layer.tokens; first += piece)
    window.add(layer.rows(first, std::min(piece, layer.tokens - first)), threads);
  window.finish(moments, threads);
  return moments;
}

TEST(WindowMoments, AreThePlainSums) {
  for (const Case& one : cases()) {
    const SampleLayer layer = sample_layer(one.geometry, one.tokens, 1);
    const LayerMoments moments = test::moments_of(layer, one.sink, one.recent);
    ASSERT_EQ(int(moments.heads.size()), one.geometry.kv_heads);
    for (int head = 0; head < one.geometry.kv_heads; ++head)
      expect_near(moments.heads[size_t(head)], plain_sums(layer, head, one), kExact, kAttended, one.name);
  }
}

// Where all of it is counted, every query pays exactly 1.
TEST(WindowMoments, AttentionIsWhatQueriesHave) {
  for (const Case& one : cases()) {
    const LayerMoments moments = test::moments_of(sample_layer(one.geometry, one.tokens, 2), one.sink, one.recent);
    for (const HeadMoments& head : moments.heads) {
      EXPECT_LE(head.attention, head.queries * (1 + kAttended)) << one.name;
      EXPECT_GT(head.attention, 0) << one.name;
      if (one.sink + one.recent == 0) {
        EXPECT_NEAR(head.attention, head.queries, kAttended * head.queries) << one.name;
      }
    }
  }
}

TEST(WindowMoments, MicroBatchesDontMatter) {
  for (const Case& one : cases()) {
    const SampleLayer layer = sample_layer(one.geometry, one.tokens, 3);
    const LayerMoments whole = test::moments_of(layer, one.sink, one.recent);
    for (const int piece : {1, 7, 32, 64, 65}) {
      const LayerMoments cut = in_pieces(layer, one, piece, 1);
      for (size_t head = 0; head < cut.heads.size(); ++head)
        expect_near(cut.heads[head], whole.heads[head], kExact, kAttended,
                    one.name + std::string(" in pieces of ") + std::to_string(piece));
    }
  }
}

TEST(WindowMoments, ThreadsDontMatterAtAll) {
  for (const Case& one : cases()) {
    const SampleLayer layer = sample_layer(one.geometry, one.tokens, 4);
    const LayerMoments alone = in_pieces(layer, one, 48, 1);
    for (const int threads : {2, 3}) EXPECT_EQ(in_pieces(layer, one, 48, threads), alone) << one.name;
  }
}

TEST(WindowMoments, FirstKeysAreSummed) {
  const Case& one = cases()[1];
  LayerMoments moments(one.geometry), plain(one.geometry);
  WindowMoments window(one.geometry, one.tokens, one.sink, one.recent);
  std::vector<double> sum(size_t(one.geometry.key_dim), 0.0);
  for (const uint64_t seed : {7, 8, 9}) {
    const SampleLayer layer = sample_layer(one.geometry, one.tokens, seed);
    const AttentionRows rows = layer.rows(0, layer.tokens);
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += double(rows.k.data[rows.k.head_stride + int64_t(c)]);
    window.add(rows, 1);
    window.finish(moments, 1, true);
    window.add(rows, 1);
    window.finish(plain, 1);
  }
  EXPECT_EQ(moments.windows, 3);
  EXPECT_EQ(moments.heads[1].first_key_sum, sum);
  EXPECT_TRUE(plain.heads[1].first_key_sum.empty());
  const std::shared_ptr<const TurningMean> mean = turning_mean(moments);
  std::vector<float> block(sum.size());
  mean->of_block(1, 0, block.data());
  for (size_t c = 0; c < sum.size(); ++c) EXPECT_NEAR(double(block[c] + mean->beyond_block(1)[c]), sum[c] / 3, 1e-5);
  EXPECT_EQ(turning_mean(plain), nullptr);
}

// A window doesn't know of the one before: sums of two are those of each.
TEST(WindowMoments, WindowsAreApart) {
  const Case& one = cases()[1];
  const SampleLayer first = sample_layer(one.geometry, one.tokens, 5), second = sample_layer(one.geometry, 60, 6);
  LayerMoments both(one.geometry);
  WindowMoments window(one.geometry, one.tokens, one.sink, one.recent);
  for (const SampleLayer* layer : {&first, &second}) {
    window.add(layer->rows(0, layer->tokens), 1);
    window.finish(both, 1);
  }
  const LayerMoments a = test::moments_of(first, one.sink, one.recent),
                     b = test::moments_of(second, one.sink, one.recent);
  for (size_t h = 0; h < both.heads.size(); ++h) {
    EXPECT_EQ(both.heads[h].tokens, a.heads[h].tokens + b.heads[h].tokens);
    for (size_t i = 0; i < both.heads[h].attended_key.size(); ++i)
      EXPECT_DOUBLE_EQ(both.heads[h].attended_key[i], a.heads[h].attended_key[i] + b.heads[h].attended_key[i]);
    for (size_t i = 0; i < both.heads[h].proxy_value.size(); ++i)
      EXPECT_DOUBLE_EQ(both.heads[h].proxy_value[i], a.heads[h].proxy_value[i] + b.heads[h].proxy_value[i]);
  }
  // And one that ends before anything counts leaves nothing.
  const LayerMoments before = both;
  window.add(second.rows(0, one.sink), 1);
  window.finish(both, 1);
  EXPECT_EQ(both, before);
}

}  // namespace
}  // namespace kvasir
