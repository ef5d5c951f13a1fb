// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/turning_mean.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kvasir {
namespace {

constexpr int kDim = 24;

Rotary halves(int first, int pairs) {
  Rotary rotary;
  for (int i = 0; i < pairs; ++i) rotary.push_back({first + i, first + pairs + i, std::pow(1e4, -double(i) / pairs)});
  return rotary;
}
Rotary neighbours(int pairs) {
  Rotary rotary;
  for (int i = 0; i < pairs; ++i) rotary.push_back({2 * i, 2 * i + 1, std::pow(1e6, -double(i) / pairs)});
  return rotary;
}

std::vector<std::vector<float>> random_means(int heads) {
  SplitMix random(4);
  std::vector<std::vector<float>> means(static_cast<size_t>(heads), std::vector<float>(kDim));
  for (auto& mean : means)
    for (float& x : mean) x = float(10 * random.normal());
  return means;
}

// The mean over the positions of a block, one by one.
std::vector<double> block_mean(const Rotary& rotary, const std::vector<float>& mean, int64_t position) {
  std::vector<double> sum(kDim, 0.0);
  const int64_t start = position / 8 * 8;
  for (int64_t p = start; p < start + 8; ++p) {
    std::vector<double> x(mean.begin(), mean.end());
    for (const RotaryPair& pair : rotary) {
      const double c = std::cos(pair.angle * double(p)), s = std::sin(pair.angle * double(p));
      x[size_t(pair.a)] = c * double(mean[size_t(pair.a)]) - s * double(mean[size_t(pair.b)]);
      x[size_t(pair.b)] = s * double(mean[size_t(pair.a)]) + c * double(mean[size_t(pair.b)]);
    }
    for (size_t i = 0; i < kDim; ++i) sum[i] += x[i] / 8;
  }
  return sum;
}

TEST(TurningMean, IsTheMeanOfABlock) {
  for (const Rotary& rotary : {halves(0, 12), halves(8, 8), neighbours(12), neighbours(5), Rotary{}}) {
    const auto means = random_means(2);
    const TurningMean turning(rotary, kDim, means, {});
    EXPECT_EQ(turning.heads(), 2);
    for (const int64_t position :
         {0, 1, 7, 8, 9, 511, 512, 8191, 32767, 32768, 262144, 1000001, 2097151, 2097152, 3000001})
      for (int head = 0; head < 2; ++head) {
        std::vector<float> found(kDim);
        turning.of_block(head, position, found.data());
        const std::vector<double> expected = block_mean(rotary, means[size_t(head)], position);
        for (size_t c = 0; c < kDim; ++c) EXPECT_NEAR(double(found[c]), expected[c], 3e-5) << position << " " << c;
      }
  }
}

TEST(TurningMean, ScoresAreProductsWithIt) {
  SplitMix random(6);
  for (const Rotary& rotary : {halves(0, 12), halves(8, 8), neighbours(5), Rotary{}}) {
    const TurningMean turning(rotary, kDim, random_means(2), {});
    std::vector<float> q(kDim), terms(size_t(turning.terms())), mean(kDim);
    for (float& x : q) x = float(random.normal());
    for (const int64_t stretch : {0, 1, 63, 64, 300, 4095, 4096}) {
      turning.to_terms(1, stretch, q.data(), 1, terms.data());
      for (int block = 0; block < TurningMean::kBlocks; ++block) {
        double score = 0, expected = 0;
        for (size_t i = 0; i < terms.size(); ++i)
          score += double(terms[i]) * double(turning.block_turns()[i * TurningMean::kBlocks + size_t(block)]);
        turning.of_block(1, (stretch * TurningMean::kBlocks + block) * 8 + 7, mean.data());
        for (size_t c = 0; c < kDim; ++c) expected += double(q[c]) * double(mean[c]);
        EXPECT_NEAR(score, expected, 2e-4) << stretch << " " << block;
      }
    }
  }
}

TEST(TurningMean, IsRemovedByBlocksAndRestored) {
  const TurningMean turning(halves(0, 12), kDim, random_means(2), {});
  SplitMix random(5);
  std::vector<float> rows(64 * kDim);
  for (float& x : rows) x = float(random.normal());
  const std::vector<int32_t> listed = {3, 70, 71, 128, 5000};
  for (const RowPositions& positions : {RowPositions{16}, RowPositions{0, listed.data(), int(listed.size())}}) {
    std::vector<float> moved = rows, mean(kDim);
    turning.remove(1, positions, moved.data());
    for (int t = 0; t < 64; ++t) {
      turning.of_block(1, positions.at(t), mean.data());
      for (int c = 0; c < kDim; ++c)
        EXPECT_EQ(moved[size_t(t * kDim + c)], rows[size_t(t * kDim + c)] - mean[size_t(c)]);
    }
    turning.restore(1, positions, moved.data());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(moved[i], rows[i], 1e-5);
  }
  EXPECT_EQ((RowPositions{0, listed.data(), 5}.at(6)), 70) << "rows behind the last repeat";
}

TEST(TurningMean, TheFirstKeyHasItsOwn) {
  const auto means = random_means(2), firsts = random_means(2);
  const TurningMean turning(halves(0, 12), kDim, means, firsts), without(halves(0, 12), kDim, means, {});
  EXPECT_EQ(without.beyond_block(1), nullptr);
  EXPECT_NE(turning.numbers(), without.numbers());
  std::vector<float> block(kDim);
  turning.of_block(1, 0, block.data());
  for (size_t c = 0; c < kDim; ++c) EXPECT_NEAR(block[c] + turning.beyond_block(1)[c], firsts[1][c], 1e-6);
  const std::vector<int32_t> kept = {0, 9};  // rows behind them are position 0, 9, 0, ... again
  for (const RowPositions& positions : {RowPositions{0}, RowPositions{0, kept.data(), 2}, RowPositions{64}}) {
    std::vector<float> rows(64 * kDim, 0.0f), others = rows;
    turning.restore(1, positions, rows.data());
    without.restore(1, positions, others.data());
    for (int t = 0; t < 64; ++t)
      for (size_t c = 0; c < kDim; ++c) {
        const float expected = positions.at(t) == 0 ? firsts[1][c] : others[size_t(t) * kDim + c];
        EXPECT_NEAR(rows[size_t(t) * kDim + c], expected, 1e-6) << t;
      }
  }
}

}  // namespace
}  // namespace kvasir
