// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/position_average.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kvasir {
namespace {

constexpr int kDim = 10;  // two pairs of halves or neighbours, and channels that don't turn

LayerGeometry geometry() {
  LayerGeometry layer;
  layer.heads = layer.kv_heads = 1;
  layer.key_dim = kDim;
  layer.value_dim = 4;
  return layer;
}

std::vector<double> turned(const std::vector<double>& x, const Rotary& rotary, double position) {
  std::vector<double> y = x;
  for (const RotaryPair& pair : rotary) {
    const double c = std::cos(pair.angle * position), s = std::sin(pair.angle * position);
    y[size_t(pair.a)] = c * x[size_t(pair.a)] - s * x[size_t(pair.b)];
    y[size_t(pair.b)] = s * x[size_t(pair.a)] + c * x[size_t(pair.b)];
  }
  return y;
}

void add(const std::vector<double>& x, double weight, std::vector<double>& sum, std::vector<double>& products) {
  for (size_t i = 0; i < x.size(); ++i) {
    sum[i] += weight * x[i];
    for (size_t j = 0; j < x.size(); ++j) products[i * x.size() + j] += weight * x[i] * x[j];
  }
}

// Sums over every beginning, one by one.
void add_over_beginnings(const std::vector<double>& x, const Rotary& rotary, int64_t positions,
                         std::vector<double>& sum, std::vector<double>& products) {
  for (int64_t p = 0; p < positions; ++p) add(turned(x, rotary, double(p)), 1.0 / double(positions), sum, products);
}

class PositionAverage : public testing::TestWithParam<std::tuple<Rotary, int64_t>> {};

TEST_P(PositionAverage, IsTheMeanOverBeginnings) {
  const auto& [rotary, positions] = GetParam();
  LayerMoments moments(geometry());
  HeadMoments& head = moments.heads[0];
  std::vector<double> sum(kDim, 0.0), products(size_t(kDim * kDim), 0.0);
  SplitMix random(3);
  for (int i = 0; i < 3; ++i) {
    std::vector<double> x(kDim);
    for (double& value : x) value = random.normal();
    add(x, 1, head.key_sum, head.key);
    add_over_beginnings(x, rotary, positions, sum, products);
  }
  head.query = head.attended_query = head.attended_key = head.key;
  head.attended_key_sum = head.key_sum;
  const std::vector<double> values = head.value;
  moments.rotary = rotary;
  average_over_positions(moments, positions);
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(head.key_sum[i], sum[i], 1e-9);
    EXPECT_EQ(head.attended_key_sum[i], head.key_sum[i]);
  }
  for (size_t i = 0; i < products.size(); ++i) {
    EXPECT_NEAR(head.key[i], products[i], 1e-9) << i;
    EXPECT_EQ(head.key[i], head.key[i % kDim * kDim + i / kDim]) << "symmetric to the last bit";
    EXPECT_EQ(head.query[i], head.key[i]);
    EXPECT_EQ(head.attended_query[i], head.key[i]);
    EXPECT_EQ(head.attended_key[i], head.key[i]);
  }
  EXPECT_EQ(head.value, values);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PositionAverage,
    testing::Combine(testing::Values(Rotary{{0, 1, 1.0}, {2, 3, 0.1}, {4, 5, 1e-3}},               // neighbours
                                     Rotary{{0, 5, 1.0}, {1, 6, 0.3}, {2, 7, 1e-5}, {3, 8, 0.0}},  // halves
                                     Rotary{{4, 7, 0.7}, {5, 8, 0.7}, {6, 9, 3.0}},                // the last ones
                                     Rotary{}),
                     testing::Values(int64_t(1), int64_t(700), int64_t(2048), int64_t(5000))));

}  // namespace
}  // namespace kvasir
