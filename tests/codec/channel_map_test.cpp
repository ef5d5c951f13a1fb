// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Sorted channels, rotations by kind, and the signs of a residual.
#include "codec/channel_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "codec/page_codec.h"

namespace kvasir {
namespace {

constexpr int kDim = 64;

// Normal rows in which every fifth channel is `factor` times as large.
std::vector<float> rows(uint64_t seed, float factor) {
  SplitMix random(seed);
  std::vector<float> x(size_t(kPageTokens * kDim));
  for (int t = 0; t < kPageTokens; ++t)
    for (int c = 0; c < kDim; ++c)
      x[size_t(t * kDim + c)] = float(random.normal()) * (c % 5 == 0 && c < 60 ? factor : 1.0f);
  return x;
}

double relative_error(const SideLayout& layout, const std::vector<float>& x) {
  std::vector<std::byte> page(layout.bytes);
  std::vector<float> y(x.size());
  encode_page(layout, 0, x.data(), page.data());
  decode_page(layout, 0, page.data(), y.data());
  double error = 0, energy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double(x[i]) - double(y[i])) * (double(x[i]) - double(y[i]));
    energy += double(x[i]) * double(x[i]);
  }
  return error / energy;
}

TEST(ChannelOrder, TakesTheLoudest) {
  const SideLayout layout(make_codec("turbo2.5", Side::value, kDim));
  ASSERT_EQ(layout.segments[0].count, 16);
  const ChannelOrder order = loudest_channels(layout, rows(1, 10).data());
  for (int c = 0; c < 60; c += 5) EXPECT_EQ((order[size_t(c / 8)] >> (c % 8)) & 1, 1) << c;
  int chosen = 0;
  for (int c = 0; c < kDim; ++c) chosen += (order[size_t(c / 8)] >> (c % 8)) & 1;
  EXPECT_EQ(chosen, 16);
}

TEST(ChannelOrder, KeysAreJudgedWithoutTheirMean) {
  std::vector<float> x = rows(2, 10);
  for (int t = 0; t < kPageTokens; ++t) x[size_t(t * kDim + 1)] += 1000;
  const auto taken = [&](Side side) {
    return loudest_channels(SideLayout(make_codec("turbo2.5", side, kDim)), x.data())[0] >> 1 & 1;
  };
  EXPECT_EQ(taken(Side::value), 1);
  // A constant is removed before anything is quantized, so it is no energy: channel 1 competes as one of the quiet
  // ones.
  const SideLayout key(make_codec("turbo2.5", Side::key, kDim));
  const ChannelOrder with = loudest_channels(key, x.data()), without = loudest_channels(key, rows(2, 10).data());
  EXPECT_EQ(with, without);
}

TEST(ChannelOrder, IsWrittenIntoThePageAndTakenOver) {
  const SideLayout layout(make_codec("turbo3.5", Side::key, kDim));
  const std::vector<float> first = rows(3, 10), second = rows(4, 1);
  const ChannelOrder order = loudest_channels(layout, first.data());
  std::vector<std::byte> page(layout.bytes);
  encode_page(layout, 0, order, second.data(), page.data());
  EXPECT_EQ(channel_order(layout, page.data()), order);
  EXPECT_NE(loudest_channels(layout, second.data()), order);
  std::vector<float> y(second.size());
  decode_page(layout, 0, page.data(), y.data());
  double error = 0;
  for (size_t i = 0; i < y.size(); ++i) error += std::pow(double(y[i]) - double(second[i]), 2);
  EXPECT_LT(error / double(y.size()), 0.04) << "another head's order costs bits, not the page";
}

// Two norms tell loud channels from quiet ones: with them at 20 times the rest, the parts hardly see each other.
TEST(ChannelOrder, LoudChannelsAreWorthTheirBit) {
  const std::vector<float> x = rows(5, 20);
  const double split = relative_error(SideLayout(make_codec("turbo2.5", Side::value, kDim)), x);
  const double plain = relative_error(SideLayout(make_codec("turbo2", Side::value, kDim)), x);
  EXPECT_LT(split, 0.45 * plain);
}

TEST(ChannelMap, TransposeUndoesForwardForOrthogonalMaps) {
  SplitMix random(6);
  std::vector<float> x(kDim);
  for (float& value : x) value = float(random.normal());
  for (const char* name : {"turbo3", "turbo3:rotation=haar", "turbo3:seed=9", "turbo2.5", "kivi2", "turboprod1"}) {
    const SideLayout layout(make_codec(name, Side::key, kDim));
    const ChannelMap map(layout, 0, loudest_channels(layout, rows(7, 3).data()));
    std::vector<float> y(size_t(layout.mapped_dim())), back(kDim);
    map.query(x.data(), y.data());
    map.inverse(y.data(), back.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(back[i], x[i], 1e-5) << name;
  }
}

// Scores and outputs in the mapped basis are those of the decoded page: <T q, y^> = <q, T^T y^>.
TEST(ChannelMap, ScoresMayBeTakenInTheMappedBasis) {
  SplitMix random(8);
  std::vector<float> q(kDim);
  for (float& value : q) value = float(random.normal());
  for (const char* name : {"turbo2.5", "turboprod3", "turboprod3:projection=gaussian", "turboprod2:rotation=haar"}) {
    const SideLayout layout(make_codec(name, Side::key, kDim));
    std::vector<std::byte> page(layout.bytes);
    encode_page(layout, 0, rows(9, 3).data(), page.data());
    std::vector<float> mapped_q(size_t(layout.mapped_dim())), mapped(size_t(kPageTokens) * size_t(layout.mapped_dim())),
        decoded(size_t(kPageTokens * kDim));
    ChannelMap(layout, 0, channel_order(layout, page.data())).query(q.data(), mapped_q.data());
    decode_page_mapped(layout, page.data(), mapped.data());
    decode_page(layout, 0, page.data(), decoded.data());
    for (int t = 0; t < kPageTokens; ++t) {
      double in_basis = 0, plain = 0;
      for (size_t c = 0; c < mapped_q.size(); ++c)
        in_basis += double(mapped_q[c]) * double(mapped[size_t(t) * mapped_q.size() + c]);
      for (int c = 0; c < kDim; ++c) plain += double(q[size_t(c)]) * double(decoded[size_t(t * kDim + c)]);
      ASSERT_NEAR(in_basis, plain, 1e-3) << name << " token " << t;
    }
  }
}

}  // namespace
}  // namespace kvasir
