// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "transform/signed_fwht.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kDims[] = {2, 8, 64, 72, 80, 96, 112, 120, 128, 160, 192, 256, 504, 512};

// The transform as a dense matrix, from its action on unit vectors: row-major [dim, dim].
std::vector<double> matrix_of(const SignedFwht& map) {
  const int d = map.dim();
  std::vector<double> m(size_t(d * d));
  for (int c = 0; c < d; ++c) {
    std::vector<float> unit(size_t(d), 0.0f);
    unit[size_t(c)] = 1;
    map.forward(unit.data());
    for (int r = 0; r < d; ++r) m[size_t(r * d + c)] = double(unit[size_t(r)]);
  }
  return m;
}

TEST(SignedFwht, IsOrthogonalAndFlat) {
  for (int d : kDims) {
    const std::vector<double> m = matrix_of(SignedFwht::of(d));
    int odd = d;
    while (odd % 2 == 0) odd /= 2;
    for (int a = 0; a < d; ++a)
      for (int b = 0; b <= a; ++b) {
        double dot = 0;
        for (int c = 0; c < d; ++c) dot += m[size_t(a * d + c)] * m[size_t(b * d + c)];
        ASSERT_NEAR(dot, a == b ? 1.0 : 0.0, 1e-6 * std::sqrt(double(d))) << "dim " << d << " rows " << a << ", " << b;
      }
    // No channel keeps more than its share: entries are at most sqrt(2/d), exactly sqrt(1/d) for powers of two.
    const double most = std::sqrt((odd == 1 ? 1.0 : 2.0) / d) * (1 + 1e-5);
    for (double entry : m) ASSERT_LE(std::abs(entry), most) << "dim " << d;
  }
}

TEST(SignedFwht, InverseUndoesForward) {
  SplitMix random(1);
  for (int d : kDims) {
    std::vector<float> x(static_cast<size_t>(d)), y;
    for (float& value : x) value = float(random.normal());
    y = x;
    SignedFwht::of(d).forward(y.data());
    SignedFwht::of(d).inverse(y.data());
    for (int c = 0; c < d; ++c)
      ASSERT_NEAR(y[size_t(c)], x[size_t(c)], 8 * std::sqrt(double(d)) * 0x1p-24) << "dim " << d << " channel " << c;
  }
}

TEST(SignedFwht, ConstantsSpread) {
  // Without signs a constant vector would land on one channel of size sqrt(d).
  for (int d : {64, 96, 128, 256}) {
    std::vector<float> x(size_t(d), 1.0f);
    SignedFwht::of(d).forward(x.data());
    for (float value : x) EXPECT_LT(std::abs(value), 0.5 * std::sqrt(double(d))) << d;
  }
}

TEST(SignedFwht, SeedDecides) {
  EXPECT_EQ(matrix_of(SignedFwht(64, 5)), matrix_of(SignedFwht(64, 5)));
  EXPECT_NE(matrix_of(SignedFwht(64, 5)), matrix_of(SignedFwht(64, 6)));
}

TEST(SignedFwht, RefusesWhatItCannotDo) {
  for (int d : {0, -8, 1, 3, 65, 130, 67 * 2}) {
    EXPECT_FALSE(SignedFwht::supports(d)) << d;
    EXPECT_THROW(SignedFwht{d}, Error) << d;
  }
}

}  // namespace
}  // namespace kvasir
