// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The quantizer against theory (arXiv 2504.19874). In the limit of many channels a code's cosine to its vector is
// cos^2 = 1 - D, D the Lloyd-Max error of N(0,1); the unbiased scale then has an error of 1/cos^2 - 1 = D / (1 - D).
#include "vector/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "quant/codebook.h"
#include "tests/vector/samples.h"

namespace kvasir {
namespace {

TEST(Encoder, ChannelsHoldTheVectorAndFitTheRotation) {
  EXPECT_EQ(rotated_channels(1), 16);
  EXPECT_EQ(rotated_channels(16), 16);
  EXPECT_EQ(rotated_channels(17), 32);
  EXPECT_EQ(rotated_channels(300), 304);
  EXPECT_EQ(rotated_channels(1536), 1536);
  for (int dim = 1; dim <= 4200; dim += 7) {
    const int channels = rotated_channels(dim);
    EXPECT_GE(channels, dim);
    EXPECT_LE(channels, dim + std::max(16, dim / 8)) << dim;
    EXPECT_TRUE(SignedFwht::supports(channels));
  }
  EXPECT_EQ(rotated_channels(65536), 65536);
  EXPECT_LE(rotated_channels(65535), 65536);
}

struct Measured {
  double mse = 0;           // of the unbiased reconstruction, per squared length
  double direction = 0;     // 1 - cos^2: the error with the best scale
  double product_mean = 0;  // of (<q, decoded> - <q, x>) / (|q| |x|), with its standard error, and d times its variance
  double product_se = 0, product_variance = 0;
};

// One vector through the encoder and back.
struct Coded {
  VectorEncoder::Encoded encoded;
  std::vector<float> decoded;
};
Coded through(const VectorEncoder& encoder, const float* x) {
  VectorEncoder::Workspace workspace = encoder.workspace();
  encoder.rotate(x, 1.0f, {}, workspace.y.data());
  Coded result;
  result.decoded.resize(size_t(encoder.dim()));
  encoder.encode(scan_kernels(), workspace, 1, &result.encoded);
  encoder.decode(workspace.codes.data(), result.encoded.scale, {}, result.decoded.data());
  return result;
}

// Unit vectors and unit queries with <q, x> = .8, as near neighbours have.
Measured measure(int dim, int bits, int vectors, VectorCode kind = VectorCode::scalar) {
  const VectorEncoder encoder(dim, make_code_table(kind, bits), 7);
  const std::vector<float> x = vector_test::normal_vectors(vectors, dim, 11),
                           other = vector_test::normal_vectors(vectors, dim, 12);
  Measured result;
  double squares = 0;
  for (int i = 0; i < vectors; ++i) {
    const float* row = &x[size_t(i) * size_t(dim)];
    const double length = std::sqrt(squared_length(row, dim));
    const auto [encoded, decoded] = through(encoder, row);
    EXPECT_NEAR(encoded.length, length, 1e-5 * length);
    double error = 0, along = 0, decoded_square = 0, other_along = 0, other_square = 0;
    for (int j = 0; j < dim; ++j) {
      const double a = double(row[j]) / length, b = double(decoded[size_t(j)]) / length;
      const double c = other[size_t(i) * size_t(dim) + size_t(j)];
      error += (a - b) * (a - b);
      along += a * b;
      decoded_square += b * b;
      other_along += a * c;
      other_square += c * c;
    }
    // Padded channels hold a part of the codes, so these two are exact only without padding.
    if (encoder.channels() == dim) {
      EXPECT_NEAR(along, 1.0, 1e-5);
    }
    result.mse += error / vectors;
    result.direction += (1 - along * along / decoded_square) / vectors;
    const double rest = std::sqrt(other_square - other_along * other_along);
    double product_error = 0;
    for (int j = 0; j < dim; ++j) {
      const double a = double(row[j]) / length, b = double(decoded[size_t(j)]) / length;
      const double across = (double(other[size_t(i) * size_t(dim) + size_t(j)]) - other_along * a) / rest;
      product_error += (0.8 * a + 0.6 * across) * (b - a);
    }
    result.product_mean += product_error / vectors;
    squares += product_error * product_error / vectors;
  }
  const double variance = squares - result.product_mean * result.product_mean;
  result.product_se = std::sqrt(variance / vectors);
  result.product_variance = variance * dim;
  return result;
}

TEST(Encoder, ErrorIsWhatTheorySays) {
  for (const int dim : {256, 1536})
    for (int bits = 1; bits <= 4; ++bits) {
      const Measured measured = measure(dim, bits, 400);
      const double best = lloyd_max_codebook(bits).gaussian_mse();
      // Finite dimensions do better than the limit by about 1 / d of it, 2 / d at 4 bits; 1.5 % leaves room for chance.
      EXPECT_NEAR(measured.direction / best, 1.0, 0.015 + 4.0 / dim) << dim << ", " << bits;
      EXPECT_NEAR(measured.mse / (best / (1 - best)), 1.0, 0.015 + 4.0 / dim) << dim << ", " << bits;
      // Thm. 1: at most sqrt(3) pi / 2 times 4^-b, even with the unbiased scale; Thm. 3: at least 4^-b.
      EXPECT_LT(measured.mse, std::sqrt(3.0) * std::numbers::pi / 2 * std::pow(4.0, -bits)) << dim << ", " << bits;
      EXPECT_GT(measured.direction, std::pow(4.0, -bits)) << dim << ", " << bits;
    }
}

TEST(Encoder, InnerProductsAreUnbiased) {
  for (const int dim : {128, 1536})
    for (int bits = 1; bits <= 4; ++bits) {
      const Measured measured = measure(dim, bits, 2000);
      EXPECT_LT(std::abs(measured.product_mean), 3 * measured.product_se) << dim << ", " << bits;
      // The error is spread over the d - 1 directions across x, of which q has a share of .36.
      const double best = lloyd_max_codebook(bits).gaussian_mse(), expected = 0.36 * best / (1 - best);
      EXPECT_NEAR(measured.product_variance / expected, 1.0, 0.15) << dim << ", " << bits;  // 2000 draws: +- 3.2 %, x 4
    }
}

// What src/vector/trellis_levels.cpp was trained to; a third below the scalar levels' .1175 and .0095.
TEST(Encoder, TrellisLosesAThirdLess) {
  for (const auto& [bits, best] : {std::pair(2, 0.0835), std::pair(4, 0.00620)}) {
    const Measured measured = measure(1536, bits, 200, VectorCode::trellis);
    EXPECT_NEAR(measured.direction / best, 1.0, 0.025) << bits;
    EXPECT_NEAR(measured.mse / (best / (1 - best)), 1.0, 0.025) << bits;
    EXPECT_LT(std::abs(measured.product_mean), 3 * measured.product_se) << bits;
    EXPECT_GT(measured.direction, std::pow(4.0, -bits)) << bits;
    EXPECT_LT(measured.direction, 0.73 * lloyd_max_codebook(bits).gaussian_mse()) << bits;
  }
}

TEST(Encoder, AwkwardVectorsLoseNoMore) {
  constexpr std::pair<VectorCode, int> kCodes[] = {{VectorCode::scalar, 1},  {VectorCode::scalar, 2},
                                                   {VectorCode::scalar, 3},  {VectorCode::scalar, 4},
                                                   {VectorCode::trellis, 2}, {VectorCode::trellis, 4}};
  constexpr int kDim = 1536;
  for (const auto& [kind, bits] : kCodes) {
    const VectorEncoder encoder(kDim, make_code_table(kind, bits), 3);
    const double bound = std::sqrt(3.0) * std::numbers::pi / 2 * std::pow(4.0, -bits);
    std::vector<float> constant(kDim, 5.0f), outliers = vector_test::normal_vectors(1, kDim, 5);
    for (int i = 0; i < 4; ++i) outliers[size_t(100 * i)] *= 20;
    for (const std::vector<float>& x : {constant, outliers}) {
      const std::vector<float> decoded = through(encoder, x.data()).decoded;
      double error = 0;
      for (int j = 0; j < kDim; ++j) error += std::pow(double(x[size_t(j)]) - double(decoded[size_t(j)]), 2);
      EXPECT_LT(error / squared_length(x.data(), kDim), 1.1 * bound) << bits;
    }
  }
}

TEST(Encoder, ZeroAndTinyVectorsDecodeToZero) {
  const VectorEncoder encoder(24, make_code_table(VectorCode::scalar, 4), 1);
  for (const float value : {0.0f, 1e-35f}) {
    const std::vector<float> x(24, value);
    const auto [encoded, decoded] = through(encoder, x.data());
    EXPECT_EQ(encoded.scale, 0.0f);
    for (const float channel : decoded) EXPECT_EQ(channel, 0.0f);
  }
}

}  // namespace
}  // namespace kvasir
