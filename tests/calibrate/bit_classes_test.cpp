// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bit_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kvasir/codec.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

double error_of(const std::vector<BitClass>& classes, const std::vector<double>& variance) {
  double error = 0;
  for (size_t c = 0; c < variance.size(); ++c) {
    double left = 1;
    for (const BitClass& part : classes)
      if (int(c) >= part.first && int(c) < part.first + part.count) left = class_distortion(part.bits, part.count);
    error += left * variance[c];
  }
  return error;
}

int bytes_of(const std::vector<BitClass>& classes, const ClassBudget& budget) {
  int bytes = 0;
  for (const BitClass& part : classes) bytes += part.count * part.bits / 8 + budget.scale_bytes;
  return bytes;
}

// Tries every way to cut the cells from `cell` on into classes.
void search(const std::vector<double>& variance, const ClassBudget& budget, std::vector<BitClass>& classes, int cell,
            double& least) {
  if (int(classes.size()) >= budget.min_classes && bytes_of(classes, budget) <= budget.bytes)
    least = std::min(least, error_of(classes, variance));
  if (int(classes.size()) == budget.max_classes) return;
  const int cells = int(variance.size()) / kCellChannels;
  for (int last = cell + 1; last <= cells; ++last)
    for (int bits = 1; bits <= budget.most_bits; ++bits) {
      classes.push_back({cell * kCellChannels, (last - cell) * kCellChannels, bits});
      search(variance, budget, classes, last, least);
      classes.pop_back();
    }
}

std::vector<double> falling(int dim, double decay, uint64_t seed) {
  SplitMix random(seed);
  std::vector<double> variance;
  for (int c = 0; c < dim; ++c) variance.push_back(std::pow(decay, c) * (0.5 + random.uniform()));
  std::sort(variance.rbegin(), variance.rend());
  return variance;
}

TEST(BitClasses, AreTheBestThereAre) {
  for (const int dim : {8, 16, 24, 32})
    for (const double decay : {1.0, 0.9, 0.6})
      for (const int bytes : {2, 5, 9, 14, 30})
        for (const int most_classes : {1, 2, 4}) {
          const std::vector<double> variance = falling(dim, decay, uint64_t(dim + bytes));
          const ClassBudget budget{.bytes = bytes, .max_classes = most_classes};
          const std::vector<BitClass> classes = choose_classes(variance, budget);
          double least = std::numeric_limits<double>::infinity();
          std::vector<BitClass> tried;
          search(variance, budget, tried, 0, least);
          EXPECT_NEAR(error_of(classes, variance), least, 1e-12 * least) << dim << " " << decay << " " << bytes;
        }
}

TEST(BitClasses, KeepTheBudgetAndTheOrder) {
  for (const int dim : {64, 128})
    for (const double decay : {1.0, 0.97, 0.8})
      for (const int bytes : {9, 20, 37, 66}) {
        const ClassBudget budget{.bytes = bytes, .scale_bytes = 2, .min_classes = 2, .max_classes = 3, .most_bits = 4};
        const std::vector<BitClass> classes = choose_classes(falling(dim, decay, 3), budget);
        EXPECT_LE(bytes_of(classes, budget), bytes);
        EXPECT_GE(classes.size(), 2u);
        EXPECT_LE(classes.size(), 3u);
        int next = 0;
        for (const BitClass& part : classes) {
          EXPECT_EQ(part.first, next);
          EXPECT_GT(part.count, 0);
          EXPECT_EQ(part.count % kCellChannels, 0);
          EXPECT_GE(part.bits, 1);
          EXPECT_LE(part.bits, 4);
          next += part.count;
        }
        EXPECT_LE(next, dim);
        for (size_t i = 1; i < classes.size(); ++i) EXPECT_GE(classes[i - 1].bits, classes[i].bits);
      }
}

TEST(BitClasses, QuietChannelsAreLeftOut) {
  std::vector<double> variance(32, 1e-9);
  std::fill(variance.begin(), variance.begin() + 16, 1.0);
  EXPECT_EQ(choose_classes(variance, {.bytes = 5}), (std::vector<BitClass>{{0, 16, 2}}));
}

TEST(BitClasses, AFlatSpectrumIsOneClass) {
  for (const int bits : {1, 2, 3, 4})
    EXPECT_EQ(choose_classes(std::vector<double>(64, 2.5), {.bytes = 8 * bits + 1}),
              (std::vector<BitClass>{{0, 64, bits}}));
}

TEST(BitClasses, ABudgetMustHoldOne) {
  const std::vector<double> variance(16, 1.0);
  EXPECT_THROW(choose_classes(variance, {.bytes = 1}), Error);
  EXPECT_THROW(choose_classes(variance, {.bytes = 3, .min_classes = 2}), Error);
  EXPECT_EQ(choose_classes(variance, {.bytes = 2}).size(), 1u);
}

TEST(BitClasses, DistortionsAreLloydAndMax) {
  // Max (1960), table I.
  const double expected[] = {1, 0.3634, 0.1175, 0.03454, 0.009497, 0.002499};
  for (int bits = 0; bits <= 5; ++bits)
    EXPECT_NEAR(class_distortion(bits, 8), expected[bits], 0.01 * expected[bits]) << bits;
}

}  // namespace
}  // namespace kvasir
