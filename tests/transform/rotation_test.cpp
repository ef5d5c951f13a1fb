// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "transform/rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

std::vector<double> columns_of(const Rotation& rotation) {
  const size_t d = size_t(rotation.dim());
  std::vector<double> columns;
  for (size_t i = 0; i < d; ++i) {
    std::vector<float> x(d, 0.0f);
    x[i] = 1;
    rotation.forward(x.data(), x.data());
    columns.insert(columns.end(), x.begin(), x.end());
  }
  return columns;
}

double column_product(const std::vector<double>& columns, size_t d, size_t i, size_t j) {
  double dot = 0;
  for (size_t c = 0; c < d; ++c) dot += columns[i * d + c] * columns[j * d + c];
  return dot;
}

TEST(Rotation, HaarAndFwhtAreOrthogonal) {
  for (const RotationKind kind : {RotationKind::haar, RotationKind::signed_fwht})
    for (const int dim : {8, 64, 96}) {
      const Rotation& rotation = Rotation::of(kind, dim, 5);
      const std::vector<double> columns = columns_of(rotation);
      for (size_t i = 0; i < size_t(dim); ++i)
        for (size_t j = 0; j <= i; ++j)
          ASSERT_NEAR(column_product(columns, size_t(dim), i, j), i == j ? 1 : 0, 1e-6) << dim << " " << i << " " << j;
    }
}

TEST(Rotation, TransposeUndoesForward) {
  SplitMix random(2);
  for (const RotationKind kind : {RotationKind::haar, RotationKind::signed_fwht}) {
    std::vector<float> x(80), y(80), back(80);
    for (float& value : x) value = float(random.normal());
    Rotation::of(kind, 80, 3).forward(x.data(), y.data());
    Rotation::of(kind, 80, 3).transpose(y.data(), back.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 1e-5);
  }
}

// <y, R x> = <R^T y, x> whatever R is.
TEST(Rotation, TransposeIsTheAdjoint) {
  SplitMix random(4);
  for (const RotationKind kind : {RotationKind::haar, RotationKind::signed_fwht, RotationKind::gaussian}) {
    std::vector<float> x(64), y(64), mapped(64), adjoint(64);
    for (float& value : x) value = float(random.normal());
    for (float& value : y) value = float(random.normal());
    Rotation::of(kind, 64, 3).forward(x.data(), mapped.data());
    Rotation::of(kind, 64, 3).transpose(y.data(), adjoint.data());
    double left = 0, right = 0;
    for (size_t i = 0; i < 64; ++i) {
      left += double(y[i]) * double(mapped[i]);
      right += double(adjoint[i]) * double(x[i]);
    }
    EXPECT_NEAR(left, right, 1e-4);
  }
}

// Entries of a Haar rotation have the density of a sphere: variance 1/d, and a fourth moment of 3 / (d (d + 2)).
TEST(Rotation, HaarHasTheMomentsOfTheSphere) {
  constexpr int kDim = 64, kSeeds = 40;
  double square = 0, fourth = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed)
    for (const double x : columns_of(Rotation(RotationKind::haar, kDim, seed))) {
      square += x * x;
      fourth += x * x * x * x;
    }
  const double n = double(kSeeds) * kDim * kDim;
  EXPECT_NEAR(square / n * kDim, 1, 1e-6);
  EXPECT_NEAR(fourth / n * kDim * (kDim + 2) / 3, 1, 0.02);
}

TEST(Rotation, GaussianHasVarianceOneOverD) {
  double square = 0;
  for (const double x : columns_of(Rotation::of(RotationKind::gaussian, 128, 9))) square += x * x;
  EXPECT_NEAR(square / 128, 1, 0.05);
}

TEST(Rotation, SeedAndSizeDecide) {
  EXPECT_EQ(columns_of(Rotation(RotationKind::haar, 16, 1)), columns_of(Rotation(RotationKind::haar, 16, 1)));
  EXPECT_NE(columns_of(Rotation(RotationKind::haar, 16, 1)), columns_of(Rotation(RotationKind::haar, 16, 2)));
  EXPECT_THROW(Rotation(RotationKind::signed_fwht, 67 * 8, 1), Error);
}

}  // namespace
}  // namespace kvasir
