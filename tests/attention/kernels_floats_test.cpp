// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over 16-bit rows and float tiles, and the softmax step: every table against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/attention/page_samples.h"

namespace kvasir::test {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kRows[] = {1, 2, 3, 4, 5, 7, 8, 9, 64};
constexpr int kTokens[] = {1, 7, 8, 9, 31, 32, 33, 63, 64};
constexpr int kDims[] = {8, 24, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256};
constexpr float kUntouched = 12345.0f;

std::string describe(const char* kernel, SimdLevel level, int dim, int rows, int tokens) {
  return std::string(kernel) + " " + name_of(level) + " dim " + std::to_string(dim) + " rows " + std::to_string(rows) +
         " tokens " + std::to_string(tokens);
}

// c [rows, columns] = before + a b with element (i, k) of a at i * a_row + k, (k, j) of b at k * b_row + j * b_column;
// tolerance from the norms.
struct Product {
  std::vector<double> value, tolerance;

  Product(const std::vector<float>& a, int a_row, const std::vector<float>& b, int b_row, int b_column, int rows,
          int depth, int columns, int c_row, const std::vector<float>& before)
      : value(before.begin(), before.end()), tolerance(before.size()) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        double sum = before[size_t(i * c_row + j)], a_squares = 0.0, b_squares = 0.0;
        const double start = std::abs(sum);
        for (int k = 0; k < depth; ++k) {
          const double x = a[size_t(i * a_row + k)], y = b[size_t(k * b_row + j * b_column)];
          sum += x * y;
          a_squares += x * x;
          b_squares += y * y;
        }
        value[size_t(i * c_row + j)] = sum;
        tolerance[size_t(i * c_row + j)] =
            4.0 * kEpsilon * std::sqrt(double(depth + 1)) * (std::sqrt(a_squares * b_squares) + start);
      }
    }
  }
};

std::vector<float> widen(HalfKind kind, const std::vector<uint16_t>& halves) {
  std::vector<float> x;
  x.reserve(halves.size());
  for (const uint16_t half : halves) x.push_back(half_to_float(kind, half));
  return x;
}

// Zero in the first `columns` of each row of 64, a mark beyond that nobody may write to.
std::vector<float> fresh_scores(int rows, int columns) {
  std::vector<float> scores(size_t(rows * kPageTokens), kUntouched);
  for (int r = 0; r < rows; ++r) std::fill_n(scores.begin() + r * kPageTokens, columns, 0.0f);
  return scores;
}

TEST(FloatKernels, ScoresOfHalves) {
  SplitMix random(21);
  for (const HalfKind kind : {HalfKind::f16, HalfKind::bf16}) {
    for (const int dim : kDims) {
      for (const int tokens : kTokens) {
        const std::vector<uint16_t> k = random_halves(kind, size_t(tokens * dim), random);
        const std::vector<float> wide = widen(kind, k);
        for (const int rows : kRows) {
          if (rows == 64 && tokens != 64 && tokens != 33) continue;
          const std::vector<float> q = random_floats(size_t(rows * dim), random);
          const Product expected(q, dim, wide, 1, dim, rows, dim, tokens, kPageTokens, fresh_scores(rows, tokens));
          for (const SimdLevel level : available_levels()) {
            std::vector<float> scores = fresh_scores(rows, tokens);
            for (float& score : scores) score = score == 0.0f ? -1.0f : score;  // must not be added to
            kernels_for(level).score_halves(kind, k.data(), tokens, dim, q.data(), rows, scores.data());
            expect_near(describe("score_halves", level, dim, rows, tokens), scores, expected.value, expected.tolerance);
          }
        }
      }
    }
  }
}

TEST(FloatKernels, WeightedSumsOfHalves) {
  SplitMix random(22);
  for (const HalfKind kind : {HalfKind::f16, HalfKind::bf16}) {
    for (const int dim : kDims) {
      for (const int tokens : kTokens) {
        const std::vector<uint16_t> v = random_halves(kind, size_t(tokens * dim), random);
        const std::vector<float> wide = widen(kind, v);
        for (const int rows : kRows) {
          if (rows == 64 && tokens != 64 && tokens != 33) continue;
          const std::vector<float> weights = random_weights(size_t(rows * kPageTokens), random);
          const std::vector<float> before = random_floats(size_t(rows * dim), random);
          const Product expected(weights, kPageTokens, wide, dim, 1, rows, tokens, dim, dim, before);
          for (const SimdLevel level : available_levels()) {
            std::vector<float> out = before;
            kernels_for(level).gather_halves(kind, v.data(), tokens, dim, weights.data(), rows, out.data());
            expect_near(describe("gather_halves", level, dim, rows, tokens), out, expected.value, expected.tolerance);
          }
        }
      }
    }
  }
}

TEST(FloatKernels, TilesOfHalvesAreExact) {
  SplitMix random(23);
  for (const HalfKind kind : {HalfKind::f16, HalfKind::bf16}) {
    for (const int dim : kDims) {
      for (const int tokens : kTokens) {
        const std::vector<uint16_t> x = random_halves(kind, size_t(tokens * dim), random);
        const std::vector<float> wide = widen(kind, x);
        std::vector<float> transposed(size_t(dim * kPageTokens), 0.0f);
        for (int t = 0; t < tokens; ++t) {
          for (int c = 0; c < dim; ++c) transposed[size_t(c * kPageTokens + t)] = wide[size_t(t * dim + c)];
        }
        for (const SimdLevel level : available_levels()) {
          std::vector<float> kt(transposed.size(), kUntouched), v(wide.size(), kUntouched);
          kernels_for(level).key_tile_halves(kind, x.data(), tokens, dim, kt.data());
          kernels_for(level).value_tile_halves(kind, x.data(), tokens, dim, v.data());
          EXPECT_EQ(kt, transposed) << describe("key_tile_halves", level, dim, 0, tokens);
          EXPECT_EQ(v, wide) << describe("value_tile_halves", level, dim, 0, tokens);
        }
      }
    }
  }
}

TEST(FloatKernels, TileProducts) {
  SplitMix random(24);
  for (const int dim : kDims) {
    const std::vector<float> kt = random_floats(size_t(dim * kPageTokens), random);
    const std::vector<float> v = random_floats(size_t(dim * kPageTokens), random);
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 64, 193}) {
      const std::vector<float> q = random_floats(size_t(rows * dim), random);
      const Product scores(q, dim, kt, kPageTokens, 1, rows, dim, kPageTokens, kPageTokens,
                           std::vector<float>(size_t(rows * kPageTokens)));
      for (const SimdLevel level : available_levels()) {
        std::vector<float> out(size_t(rows * kPageTokens), kUntouched);
        kernels_for(level).tile_scores(q.data(), rows, dim, kt.data(), out.data());
        expect_near(describe("tile_scores", level, dim, rows, kPageTokens), out, scores.value, scores.tolerance);
      }
      const std::vector<float> weights = random_weights(size_t(rows * kPageTokens), random);
      for (const int tokens : kTokens) {
        if (rows > 13 && tokens != 64 && tokens != 33) continue;
        const Product sums(weights, kPageTokens, v, dim, 1, rows, tokens, dim, dim, q);
        for (const SimdLevel level : available_levels()) {
          std::vector<float> out = q;
          kernels_for(level).tile_gather(weights.data(), rows, tokens, v.data(), dim, out.data());
          expect_near(describe("tile_gather", level, dim, rows, tokens), out, sums.value, sums.tolerance);
        }
      }
    }
  }
}

// e^x within 2 units in the last place, or 0 where the result would not be a normal number.
double exp_tolerance(double value) {
  return 2.0 * kEpsilon * value + 1.3e-38;
}

TEST(FloatKernels, SoftmaxStep) {
  SplitMix random(25);
  for (const SimdLevel level : available_levels()) {
    for (const int tokens : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64}) {
      for (const float spread : {1.0f, 30.0f, 200.0f}) {
        float max = -kInfinity, sum = 0.0f;
        for (int step = 0; step < 3; ++step) {
          std::vector<float> scores(size_t(tokens + 8), kUntouched);
          for (int t = 0; t < tokens; ++t) {
            scores[size_t(t)] = random.below(6) == 0 ? -kInfinity : spread * float(random.normal());
          }
          const float old_max = max, old_sum = sum;
          const float new_max = std::max(old_max, *std::max_element(scores.begin(), scores.begin() + tokens));
          std::vector<double> expected(scores.begin(), scores.end()), tolerance(scores.size());
          double added = 0.0;
          for (int t = 0; t < tokens; ++t) {
            const size_t i = size_t(t);
            expected[i] = new_max == -kInfinity ? 0.0 : std::exp(double(scores[i] - new_max));
            tolerance[i] = scores[i] == -kInfinity ? 0.0 : exp_tolerance(expected[i]);
            added += expected[i];
          }
          const float factor = kernels_for(level).softmax_step(scores.data(), tokens, &max, &sum);
          const std::string what = describe("softmax_step", level, 0, step, tokens);
          expect_near(what, scores, expected, tolerance);
          EXPECT_EQ(max, new_max) << what;
          const double scaled = new_max == -kInfinity ? 1.0 : std::exp(double(old_max - new_max));
          EXPECT_NEAR(factor, scaled, exp_tolerance(scaled)) << what;
          const double total = double(old_sum) * scaled + added;
          EXPECT_NEAR(sum, total, kEpsilon * (2.0 + std::sqrt(double(tokens))) * total) << what;
        }
      }
    }
  }
}

TEST(FloatKernels, SoftmaxStepOfMaskedRows) {
  for (const SimdLevel level : available_levels()) {
    std::vector<float> scores(11, -kInfinity);
    float max = -kInfinity, sum = 0.0f;
    EXPECT_EQ(kernels_for(level).softmax_step(scores.data(), 11, &max, &sum), 1.0f);
    EXPECT_EQ(scores, std::vector<float>(11, 0.0f));
    EXPECT_EQ(max, -kInfinity);
    EXPECT_EQ(sum, 0.0f);

    scores.assign(11, 2.0f);
    EXPECT_EQ(kernels_for(level).softmax_step(scores.data(), 11, &max, &sum), 0.0f);
    EXPECT_EQ(scores, std::vector<float>(11, 1.0f));
    EXPECT_EQ(max, 2.0f);
    EXPECT_EQ(sum, 11.0f);

    scores.assign(11, -kInfinity);
    EXPECT_EQ(kernels_for(level).softmax_step(scores.data(), 11, &max, &sum), 1.0f);
    EXPECT_EQ(scores, std::vector<float>(11, 0.0f));
    EXPECT_EQ(max, 2.0f);
    EXPECT_EQ(sum, 11.0f);
  }
}

}  // namespace
}  // namespace kvasir::test
