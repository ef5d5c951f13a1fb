// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/codebook.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "kvasir/error.h"
#include "quant/density.h"

namespace kvasir {
namespace {

// Published values: Max 1960 and TurboQuant (arXiv 2504.19874, Thm. 1), to the digits known.
TEST(LloydMax, MatchesThePublishedTables) {
  const double mse[] = {0, .363380, .117482, .034548, .009501, .002505};
  for (int b = 1; b <= 5; ++b) EXPECT_NEAR(lloyd_max_exact(b).mse, mse[b], 1e-6) << b;
  EXPECT_NEAR(lloyd_max_exact(1).levels[1], std::sqrt(2 / 3.14159265358979), 1e-9);
  EXPECT_NEAR(lloyd_max_exact(2).levels[2], .452780, 1e-6);
  EXPECT_NEAR(lloyd_max_exact(2).levels[3], 1.510418, 1e-6);
  EXPECT_NEAR(lloyd_max_exact(3).levels[7], 2.151946, 1e-6);
  EXPECT_NEAR(lloyd_max_exact(4).levels[15], 2.732590, 1e-6);
}

TEST(LloydMax, IsAFixedPoint) {
  // Each level is the centroid of its cell and each edge the midpoint: then E[x c] = E[c^2] and mse = 1 - E[c^2].
  for (int b = 1; b <= 6; ++b) {
    const LloydMaxExact exact = lloyd_max_exact(b);
    double power = 0;
    for (size_t i = 0; i < exact.levels.size(); ++i) {
      const double low = i == 0 ? -1e9 : 0.5 * (exact.levels[i - 1] + exact.levels[i]);
      const double high = i + 1 == exact.levels.size() ? 1e9 : 0.5 * (exact.levels[i] + exact.levels[i + 1]);
      const double mass = 0.5 * (std::erfc(-high / std::sqrt(2.0)) - std::erfc(-low / std::sqrt(2.0)));
      power += mass * exact.levels[i] * exact.levels[i];
    }
    EXPECT_NEAR(exact.mse, 1 - power, 1e-7) << b;
  }
}

TEST(LloydMax, StaysBetweenShannonAndThePaperBound) {
  for (int b = 1; b <= 6; ++b) {
    const double mse = lloyd_max_exact(b).mse;
    EXPECT_GT(mse, std::pow(4.0, -b));                                          // Thm. 3
    EXPECT_LT(mse, std::sqrt(3.0) * 3.14159265358979 / 2 * std::pow(4.0, -b));  // Thm. 1
  }
}

TEST(LloydMax, ByteGridCostsLittle) {
  const double allowed[] = {0, 1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 4e-2};
  for (int b = 1; b <= 6; ++b) {
    const double exact = lloyd_max_exact(b).mse, grid = lloyd_max_codebook(b).gaussian_mse();
    EXPECT_GE(grid, exact * (1 - 1e-9)) << b;
    EXPECT_LT(grid, exact * (1 + allowed[b])) << b;
  }
}

TEST(LloydMax, IsSymmetric) {
  for (int b = 1; b <= 6; ++b) {
    const Codebook& book = lloyd_max_codebook(b);
    for (int i = 0; i < book.levels(); ++i)
      EXPECT_EQ(int(book.level[size_t(i)]) - book.offset, book.offset - int(book.level[size_t(book.levels() - 1 - i)]));
  }
}

TEST(Codebook, CodeIsTheNearestLevel) {
  SplitMix random(3);
  for (int b = 1; b <= 6; ++b) {
    const Codebook& book = lloyd_max_codebook(b);
    for (int trial = 0; trial < 2000; ++trial) {
      const float x = float(2 * random.normal());
      const float got = std::abs(book.value(book.code(x)) - x);
      for (int i = 0; i < book.levels(); ++i) ASSERT_LE(got, std::abs(book.value(i) - x) + 1e-6f);
    }
  }
}

TEST(Codebook, MeasuredErrorIsTheIntegral) {
  SplitMix random(4);
  constexpr int kSamples = 200000;
  for (int b = 1; b <= 4; ++b) {
    const Codebook& book = lloyd_max_codebook(b);
    double sum = 0, square = 0;
    for (int i = 0; i < kSamples; ++i) {
      const float x = float(random.normal());
      const double error = double(x - book.value(book.code(x)));
      sum += error * error;
      square += error * error * error * error;
    }
    const double mean = sum / kSamples, se = std::sqrt((square / kSamples - mean * mean) / kSamples);
    EXPECT_NEAR(mean, book.gaussian_mse(), 4 * se) << b;
  }
}

// Levels and errors for finite d as computed by exact integration of the Beta density.
TEST(LloydMax, MatchesTheSphereAtFiniteDims) {
  const struct {
    int dim, bits;
    double top, mse;
  } known[] = {{32, 1, .80413, .35336},   {32, 4, 2.56523, .00877},  {64, 2, 1.49999, .11453},
               {64, 3, 2.11139, .03339},  {128, 1, .79943, .36089},  {128, 3, 2.13156, .03397},
               {128, 4, 2.68921, .00931}, {256, 4, 2.71096, .00941}, {96, 2, 1.50345, .11551}};
  for (const auto& row : known) {
    const LloydMaxExact exact = lloyd_max_exact(row.bits, row.dim);
    // The minimum is flat: the published levels stop a few 1e-4 early, which the error doesn't notice.
    EXPECT_NEAR(exact.levels.back(), row.top, 5e-4) << row.dim << " " << row.bits;
    EXPECT_NEAR(exact.mse, row.mse, 6e-6) << row.dim << " " << row.bits;
  }
}

// At a fixed point each level is the mean of its cell, so E u c = E c^2 and the error is 1 - E c^2.
TEST(LloydMax, SphereLevelsAreAFixedPoint) {
  for (int dim : {8, 64, 128})
    for (int b = 1; b <= 5; ++b) {
      const LloydMaxExact exact = lloyd_max_exact(b, dim);
      const Density density = Density::sphere(dim);
      double power = 0;
      for (size_t i = 0; i < exact.levels.size(); ++i) {
        const Moments cell = density.cell(exact.levels, i);
        EXPECT_NEAR(cell.m1 / cell.m0, exact.levels[i], 1e-8) << dim << " " << b;
        power += cell.m0 * exact.levels[i] * exact.levels[i];
      }
      EXPECT_NEAR(exact.mse, 1 - power, 1e-8) << dim << " " << b;
    }
}

TEST(LloydMax, SphereTendsToTheNormal) {
  for (int b = 1; b <= 5; ++b) EXPECT_NEAR(lloyd_max_exact(b, 1 << 20).mse / lloyd_max_exact(b).mse, 1, 1e-4) << b;
}

TEST(LloydMax, SphereGridCostsLittle) {
  for (int dim : {64, 128, 1536})
    for (int b = 1; b <= 5; ++b) {
      const Codebook& book = lloyd_max_codebook(b, dim);
      EXPECT_EQ(&book, &lloyd_max_codebook(b, dim));
      EXPECT_NEAR(book.value(book.levels() - 1) / lloyd_max_exact(b, dim).levels.back(), 1, 0.01) << dim << " " << b;
    }
}

TEST(Codebook, SignsAreOne) {
  EXPECT_EQ(sign_codebook().value(0), -1.0f);
  EXPECT_EQ(sign_codebook().value(1), 1.0f);
}

TEST(Codebook, RefusesOtherWidths) {
  EXPECT_THROW(lloyd_max_codebook(7, 64), Error);
  EXPECT_THROW(lloyd_max_exact(2, 3), Error);
  EXPECT_THROW(lloyd_max_codebook(0), Error);
  EXPECT_THROW(lloyd_max_codebook(7), Error);
  EXPECT_THROW(uniform_codebook(9), Error);
  EXPECT_THROW(symmetric_codebook(1), Error);
}

}  // namespace
}  // namespace kvasir
