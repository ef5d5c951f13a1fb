// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over packed pages, every table against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "kvasir/error.h"
#include "tests/attention/page_samples.h"

namespace kvasir::test {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr int kRows[] = {1, 2, 3, 4, 5, 8, 9, 64};
constexpr int kDims[] = {24, 64, 72, 80, 88, 96, 112, 120, 128, 160, 192, 256};

// Standard deviation of the rounding of coefficients to integers of at least 14 bits, per unit of the largest
// coefficient: a uniform error of one step's width.
const double kCoefficientSigma = 1.0 / 16383.0 / std::sqrt(12.0);
constexpr double kSigmas = 6.0;

// A float sum of n products: n roundings that go either way, each relative to at most the norms' product.
double float_bound(double norms, int n) {
  return 4.0 * kEpsilon * std::sqrt(double(n)) * norms;
}

std::vector<Codec> all_codecs(Side side) {
  std::vector<Codec> codecs = unusual_codecs(side);
  for (const std::string& name : codec_names()) {
    for (const int dim : kDims) codecs.push_back(make_codec(name, side, dim));
  }
  return codecs;
}

std::string describe(const char* kernel, SimdLevel level, const Codec& codec, int rows) {
  return std::string(kernel) + " " + name_of(level) + " " + codec.name + " dim " + std::to_string(codec.dim) +
         " rows " + std::to_string(rows);
}

struct Expected {
  std::vector<double> value, tolerance;
};

// Scores of one token: the integer path rounds the query, times the channel's scale where it has one, against the
// largest of its segment.
double score_variance(const SamplePage& page, const float* q, int token) {
  const bool by_channel = page.layout.codec.scale_span == ScaleSpan::channel;
  double variance = 0.0;
  for (const SegmentLayout& segment : page.layout.segments) {
    double largest = 0.0, squares = 0.0;
    for (int c = segment.first; c < segment.first + segment.count; ++c) {
      const size_t at = page.at(token, c);
      const double coefficient = double(q[c]) * (by_channel ? page.scale[at] : 1.0);
      const double factor = page.level[at] * (by_channel ? 1.0 : page.scale[at]);
      largest = std::max(largest, std::abs(coefficient));
      squares += factor * factor;
    }
    variance += largest * largest * squares;
  }
  return variance;
}

Expected expected_scores(const SamplePage& page, const std::vector<float>& q, int rows, bool integers) {
  Expected expected;
  const int dim = page.dim();
  for (int r = 0; r < rows; ++r) {
    const float* query = q.data() + size_t(r) * size_t(dim);
    for (int t = 0; t < kPageTokens; ++t) {
      double sum = 0.0, q_squares = 0.0, squares = 0.0;
      for (int c = 0; c < dim; ++c) {
        const double x = query[c], magnitude = page.magnitude[page.at(t, c)];
        sum += x * page.value[page.at(t, c)];
        q_squares += x * x;
        squares += magnitude * magnitude;
      }
      double tolerance = float_bound(std::sqrt(q_squares * squares), dim);
      if (integers) tolerance += kSigmas * kCoefficientSigma * std::sqrt(score_variance(page, query, t));
      expected.value.push_back(sum);
      expected.tolerance.push_back(tolerance);
    }
  }
  return expected;
}

// The weighted sum of one channel: weights, times the token's scale where it has one, are rounded against the largest
// of the page, or of the block where scales belong to channels.
double gather_variance(const SamplePage& page, const float* weights, int channel) {
  const bool by_channel = page.layout.codec.scale_span == ScaleSpan::channel;
  const int span = by_channel ? kBlockTokens : kPageTokens;
  double variance = 0.0;
  for (int first = 0; first < kPageTokens; first += span) {
    double largest = 0.0, squares = 0.0;
    for (int t = first; t < first + span; ++t) {
      const size_t at = page.at(t, channel);
      const double coefficient = double(weights[t]) * (by_channel ? 1.0 : page.scale[at]);
      const double factor = page.level[at] * (by_channel ? page.scale[at] : 1.0);
      largest = std::max(largest, std::abs(coefficient));
      squares += factor * factor;
    }
    variance += largest * largest * squares;
  }
  return variance;
}

Expected expected_gather(const SamplePage& page, const std::vector<float>& weights, int rows,
                         const std::vector<float>& before, bool integers) {
  Expected expected;
  for (int r = 0; r < rows; ++r) {
    const float* row = weights.data() + r * kPageTokens;
    for (int c = 0; c < page.dim(); ++c) {
      const double start = before[size_t(r) * size_t(page.dim()) + size_t(c)];
      double sum = start, w_squares = 0.0, squares = 0.0;
      for (int t = 0; t < kPageTokens; ++t) {
        const double w = row[t], magnitude = page.magnitude[page.at(t, c)];
        sum += w * page.value[page.at(t, c)];
        w_squares += w * w;
        squares += magnitude * magnitude;
      }
      double tolerance = float_bound(std::sqrt(w_squares * squares) + std::abs(start), kPageTokens + 1);
      if (integers) tolerance += kSigmas * kCoefficientSigma * std::sqrt(gather_variance(page, row, c));
      expected.value.push_back(sum);
      expected.tolerance.push_back(tolerance);
    }
  }
  return expected;
}

TEST(Kernels, ScoresOfEveryCodec) {
  const auto scratch = std::make_unique<KernelScratch>();
  SplitMix random(11);
  for (const Codec& codec : all_codecs(Side::key)) {
    const SamplePage page = sample_page(codec, random.next());
    for (const int rows : kRows) {
      const std::vector<float> q = random_floats(size_t(rows * codec.mapped_dim()), random);
      for (const SimdLevel level : available_levels()) {
        std::vector<float> scores(size_t(rows * kPageTokens), 1e30f);
        kernels_for(level).score_page(page.layout, page.bytes.data(), q.data(), rows, scores.data(), *scratch);
        const Expected expected = expected_scores(page, q, rows, level != SimdLevel::scalar);
        expect_near(describe("score_page", level, codec, rows), scores, expected.value, expected.tolerance);
      }
    }
  }
}

TEST(Kernels, WeightedSumsOfEveryCodec) {
  const auto scratch = std::make_unique<KernelScratch>();
  SplitMix random(12);
  for (const Codec& codec : all_codecs(Side::value)) {
    const SamplePage page = sample_page(codec, random.next());
    for (const int rows : kRows) {
      const std::vector<float> weights = random_weights(size_t(rows * kPageTokens), random);
      const std::vector<float> before = random_floats(size_t(rows * codec.mapped_dim()), random);
      for (const SimdLevel level : available_levels()) {
        std::vector<float> out = before;
        kernels_for(level).gather_page(page.layout, page.bytes.data(), weights.data(), rows, out.data(), *scratch);
        const Expected expected = expected_gather(page, weights, rows, before, level != SimdLevel::scalar);
        expect_near(describe("gather_page", level, codec, rows), out, expected.value, expected.tolerance);
      }
    }
  }
}

TEST(Kernels, ZeroRowsStayZero) {
  const auto scratch = std::make_unique<KernelScratch>();
  for (const SimdLevel level : available_levels()) {
    const SamplePage keys = sample_page(make_codec("turbo4", Side::key, 64), 13);
    const SamplePage values = sample_page(make_codec("turbo4", Side::value, 64), 14);
    const std::vector<float> nothing(size_t(2 * 64));
    std::vector<float> scores(size_t(2 * kPageTokens), 1.0f), out(size_t(2 * 64), 3.0f);
    kernels_for(level).score_page(keys.layout, keys.bytes.data(), nothing.data(), 2, scores.data(), *scratch);
    kernels_for(level).gather_page(values.layout, values.bytes.data(), nothing.data(), 2, out.data(), *scratch);
    EXPECT_EQ(scores, std::vector<float>(scores.size(), 0.0f)) << name_of(level);
    EXPECT_EQ(out, std::vector<float>(out.size(), 3.0f)) << name_of(level);
  }
}

// The largest sum there can be: every level, coefficient and sign at its extreme.
TEST(Kernels, IntegerSumsDoNotOverflow) {
  const auto scratch = std::make_unique<KernelScratch>();
  for (const int dim : {256, 512}) {
    Codec codec = unusual_codecs(Side::key).back();
    ASSERT_EQ(codec.name, "widest-head");
    codec.dim = codec.segments[0].count = dim;
    codec.center = false;
    const SideLayout layout(codec);
    std::vector<std::byte> page(layout.bytes);
    std::fill_n(page.begin(), size_t(kPageTokens * dim), std::byte(255));
    for (size_t i = layout.scales; i < layout.zeros; i += 2) {
      const uint16_t one = float_to_f16(1.0f);
      std::memcpy(page.data() + i, &one, sizeof one);
    }
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> q(size_t(dim), sign);
      for (const SimdLevel level : available_levels()) {
        std::vector<float> scores(kPageTokens);
        kernels_for(level).score_page(layout, page.data(), q.data(), 1, scores.data(), *scratch);
        for (const float score : scores) EXPECT_NEAR(score, sign * 255.0f * float(dim), 0.05f) << name_of(level);
      }
    }
  }
}

TEST(Kernels, TilesOfEveryCodec) {
  const auto scratch = std::make_unique<KernelScratch>();
  SplitMix random(15);
  for (const Side side : {Side::key, Side::value}) {
    for (const Codec& codec : all_codecs(side)) {
      const SamplePage page = sample_page(codec, random.next());
      std::vector<double> expected(page.value.size()), tolerance(page.value.size());
      for (int t = 0; t < kPageTokens; ++t) {
        for (int c = 0; c < codec.mapped_dim(); ++c) {
          const size_t to = side == Side::key ? size_t(c * kPageTokens + t) : page.at(t, c);
          expected[to] = page.value[page.at(t, c)];
          tolerance[to] = 4.0 * kEpsilon * page.magnitude[page.at(t, c)];
        }
      }
      for (const SimdLevel level : available_levels()) {
        const Kernels& kernels = kernels_for(level);
        std::vector<float> tile(page.value.size(), 1e30f);
        (side == Side::key ? kernels.key_tile : kernels.value_tile)(page.layout, page.bytes.data(), tile.data(),
                                                                    *scratch);
        expect_near(describe("tile", level, codec, kPageTokens), tile, expected, tolerance);
      }
    }
  }
}

TEST(Kernels, TablesKnowTheirLevel) {
  EXPECT_TRUE(simd_available(SimdLevel::scalar));
  for (const SimdLevel level : kSimdLevels) {
    if (simd_available(level)) {
      EXPECT_EQ(kernels_for(level).level, level);
    } else {
      EXPECT_THROW(kernels_for(level), Error);
    }
  }
}

}  // namespace
}  // namespace kvasir::test
