// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/distortion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "eval/sphere_theory.h"

namespace kvasir {
namespace {

TEST(SphereTheory, TendsToTheNormalDistribution) {
  for (int bits = 1; bits <= 6; ++bits) {
    const Codebook& book = lloyd_max_codebook(bits);
    // The density of the sphere is that of a normal number up to terms in 1/d.
    EXPECT_NEAR(sphere_theory(book, ScaleFit::norm, 1 << 20).mse / book.gaussian_mse(), 1, 1e-4) << bits;
    const double d = sphere_theory(book, ScaleFit::norm, 1 << 20).mse;
    EXPECT_NEAR(sphere_theory(book, ScaleFit::unbiased, 1 << 20).mse, d / (1 - d), 2e-3 * d) << bits;
  }
}

TEST(SphereTheory, ScalesAreOrderedByTheirError) {
  for (const int dim : {16, 64, 128})
    for (int bits = 1; bits <= 4; ++bits) {
      const Codebook& book = lloyd_max_codebook(bits);
      const double least = sphere_theory(book, ScaleFit::least_squares, dim).mse;
      EXPECT_LE(least, sphere_theory(book, ScaleFit::norm, dim).mse) << dim << " " << bits;
      EXPECT_LT(least, sphere_theory(book, ScaleFit::unbiased, dim).mse) << dim << " " << bits;
    }
}

TEST(Distortion, TurboMatchesTheoryAtEveryDim) {
  for (const int dim : {32, 64, 80, 96, 128, 256})
    for (const char* name : {"turbo2", "turbo3", "turbo4"})
      for (const Side side : {Side::key, Side::value}) {
        const std::string what =
            std::string(name) + " dim " + std::to_string(dim) + (side == Side::key ? " key" : " value");
        const Codec codec = make_codec(name, side, dim);
        const int64_t pages = 400;  // 25,600 vectors
        const Distortion result = measure_distortion(codec, gaussian_pages(dim, 1), pages, 1, 1, true);
        ASSERT_TRUE(result.theory_mse) << what;
        // What the expansion leaves out is of order 1/d^2.
        EXPECT_NEAR(result.mse / *result.theory_mse, 1, 0.01) << what;
        EXPECT_NEAR(result.ip_bias.mean, *result.theory_bias,
                    4 * result.ip_bias.se + 0.005 * std::abs(*result.theory_bias))
            << what;
        // Errors behind a random rotation point anywhere, so a query's share of them is one of d.
        EXPECT_NEAR(result.ip_var / result.mse, 1, 0.05) << what;
        EXPECT_EQ(code_bits(codec), name[5] - '0');
      }
}

TEST(Distortion, KeyScalesAreUnbiased) {
  for (const char* name : {"turbo2", "turbo3", "turbo4"}) {
    const Distortion result =
        measure_distortion(make_codec(name, Side::key, 128), gaussian_pages(128, 7), 1024, 7, 2, true);
    EXPECT_LT(std::abs(result.ip_bias.mean), 3 * result.ip_bias.se) << name;
  }
}

TEST(Distortion, EveryScaleRotationAndCodebookMatchesTheory) {
  for (const char* scale : {"norm", "matched", "unbiased", "least-squares"})
    for (const char* rotation : {"signed-fwht", "haar"})
      for (const char* codebook : {"normal", "sphere"})
        for (int bits = 1; bits <= 5; ++bits) {
          const std::string name = "turbo" + std::to_string(bits) + ":mean=off:scale=" + scale +
                                   ":rotation=" + rotation + ":codebook=" + codebook;
          const Distortion result =
              measure_distortion(make_codec(name, Side::key, 64), gaussian_pages(64, 3), 300, 3, 2, true);
          EXPECT_NEAR(result.mse / *result.theory_mse, 1, 0.01) << name;
          EXPECT_NEAR(result.ip_bias.mean, *result.theory_bias,
                      4 * result.ip_bias.se + 0.005 * std::abs(*result.theory_bias))
              << name;
          // The paper's bound (arXiv 2504.19874, Thm. 1); the unbiased scale pays D / (1 - D).
          if (std::string(scale) != "unbiased") {
            EXPECT_LT(result.mse, 2.7207 * std::pow(4.0, -bits)) << name;
          }
        }
}

// arXiv 2504.19874, Thm. 2, and its variance with an orthogonal projection: (pi/2 - 1) D(b - 1) instead of pi/2 D(b -
// 1).
TEST(Distortion, SignsOfTheResidualMakeScoresUnbiased) {
  const double limits[] = {0, .5708, .2075, .0671, .0197};
  for (const int dim : {64, 128})
    for (int bits = 1; bits <= 4; ++bits)
      for (const bool gaussian : {false, true}) {
        const std::string name = "turboprod" + std::to_string(bits) + (gaussian ? ":projection=gaussian" : "");
        const Codec codec = make_codec(name, Side::value, dim);
        const Distortion result = measure_distortion(codec, gaussian_pages(dim, 11), 512, 11, 2, true);
        EXPECT_LT(std::abs(result.ip_bias.mean), 3 * result.ip_bias.se + (gaussian ? 0.02 : 0)) << name;
        EXPECT_NEAR(result.ip_var / *result.theory_mse, 1, 0.05) << name << " dim " << dim;
        if (!gaussian) {
          // The limits are those of large d; a codebook for normal numbers does better on a smaller sphere.
          EXPECT_LT(result.ip_var / limits[bits], 1.05) << name << " dim " << dim;
          EXPECT_GT(result.ip_var / limits[bits], dim == 64 ? 0.9 : 0.95) << name << " dim " << dim;
        }
        EXPECT_EQ(code_bits(codec), bits);
      }
}

TEST(ResidualSign, HasTheLimitsOfTheory) {
  EXPECT_NEAR(residual_sign_error(ProjectionKind::orthogonal, 1 << 16), std::numbers::pi / 2 - 1, 1e-4);
  EXPECT_NEAR(residual_sign_error(ProjectionKind::gaussian, 1 << 16), std::numbers::pi / 2, 1e-4);
}

// What a rotation is for: no input may be much worse than normal vectors (docs/results/turboquant.md has the table).
TEST(Distortion, HardInputsLoseAtMostTwice) {
  for (const char* name : {"turbo2", "turbo3", "turbo4", "turbo2.5", "turboprod3", "turbo3:rotation=haar"}) {
    const Codec codec = make_codec(name, Side::value, 128);
    const double normal = measure_distortion(codec, gaussian_pages(128, 2), 100, 2, 2, false).mse;
    for (const auto make : {spike_pages, constant_pages, outlier_pages})
      EXPECT_LT(measure_distortion(codec, make(128, 2), 100, 2, 2, false).mse, 2 * normal) << name;
  }
}

TEST(Distortion, MeanRemovalCountsOnlyWhatIsQuantized) {
  Codec codec = make_codec("turbo4", Side::key, 64);
  const Distortion centered = measure_distortion(codec, gaussian_pages(64, 5), 200, 5, 1, true);
  EXPECT_NEAR(centered.mse_input / centered.mse, 63.0 / 64.0, 0.002);
  codec.center = false;
  const Distortion plain = measure_distortion(codec, gaussian_pages(64, 5), 200, 5, 1, true);
  EXPECT_NEAR(plain.mse_input / plain.mse, 1, 1e-12);
  EXPECT_NEAR(plain.mse / centered.mse, 1, 0.01);
}

TEST(Distortion, RawIsRounding) {
  const Distortion result = measure_distortion(make_codec("f16", Side::key, 64), gaussian_pages(64, 2), 20, 2, 1, true);
  EXPECT_FALSE(result.theory_mse);
  EXPECT_LT(result.mse, std::pow(2.0, -22));  // half an ulp of an 11-bit mantissa, squared
  EXPECT_GT(result.mse, std::pow(2.0, -28));
}

TEST(Distortion, DoesNotDependOnThreads) {
  const Codec codec = make_codec("turbo2", Side::key, 64);
  const Distortion one = measure_distortion(codec, gaussian_pages(64, 9), 33, 9, 1, true);
  const Distortion four = measure_distortion(codec, gaussian_pages(64, 9), 33, 9, 4, true);
  EXPECT_EQ(one.mse, four.mse);
  EXPECT_EQ(one.ip_bias.mean, four.ip_bias.mean);
  EXPECT_EQ(one.ip_var, four.ip_var);
}

TEST(Distortion, GivenVectors) {
  std::vector<float> rows(2 * kPageTokens * 8, 0.25f);  // constant: f16 holds them exactly
  const Distortion exact = measure_distortion(make_codec("f16", Side::value, 8), given_pages(8, rows), 2, 1, 1, false);
  EXPECT_EQ(exact.mse, 0.0);
  EXPECT_EQ(exact.vectors, 2 * kPageTokens);
  EXPECT_FALSE(exact.theory_mse);
}

}  // namespace
}  // namespace kvasir
