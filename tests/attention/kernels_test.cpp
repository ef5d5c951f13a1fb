// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over packed pages, every table against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "codec/page_codec.h"
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

void score(SimdLevel level, const SideLayout& layout, const std::byte* page, const std::vector<float>& q, int rows,
           std::vector<float>& scores, KernelScratch& scratch) {
  const Kernels& kernels = kernels_for(level);
  kernels.prepare_query(layout, q.data(), rows, scratch);
  kernels.score_page(layout, page, q.data(), rows, scores.data(), scratch);
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
      const Expected in_floats = expected_scores(page, q, rows, false),
                     in_integers = expected_scores(page, q, rows, true);
      for (const SimdLevel level : available_levels()) {
        std::vector<float> scores(size_t(rows * kPageTokens), 1e30f);
        score(level, page.layout, page.bytes.data(), q, rows, scores, *scratch);
        const Expected& expected = level == SimdLevel::scalar ? in_floats : in_integers;
        expect_near(describe("score_page", level, codec, rows), scores, expected.value, expected.tolerance);
      }
    }
  }
}

double rms_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / double(a.size()));
}

// What a table rounds on the way is at most a tenth of what the codec lost, also with queries of which a few channels
// tower above the rest.
TEST(Kernels, ScoresRoundLessThanTheCodec) {
  const auto scratch = std::make_unique<KernelScratch>();
  SplitMix random(17);
  constexpr int kQueries = 16;
  for (const std::string& name : codec_names()) {
    for (const int dim : {64, 128, 256}) {
      const SideLayout layout(make_codec(name, Side::key, dim));
      if (layout.raw()) continue;
      const std::vector<float> keys = random_floats(size_t(kPageTokens * dim), random);
      std::vector<std::byte> page(layout.bytes);
      encode_page(layout, 0, keys.data(), page.data());
      std::vector<float> decoded(size_t(kPageTokens * layout.mapped_dim()));
      decode_page_mapped(layout, page.data(), decoded.data());
      const ChannelMap map(layout, 0, channel_order(layout, page.data()));
      for (const float loud : {1.0f, 30.0f}) {
        std::vector<float> q = random_floats(size_t(kQueries * dim), random);
        for (int r = 0; r < kQueries; ++r) q[size_t(r * dim + 5)] *= loud;
        std::vector<float> mapped(size_t(kQueries * layout.mapped_dim()));
        for (int r = 0; r < kQueries; ++r) map.query(q.data() + r * dim, mapped.data() + r * layout.mapped_dim());
        std::vector<double> exact, stored;
        for (int r = 0; r < kQueries; ++r)
          for (int t = 0; t < kPageTokens; ++t) {
            double from_keys = 0.0, from_page = 0.0;
            for (int c = 0; c < dim; ++c) from_keys += double(q[size_t(r * dim + c)]) * keys[size_t(t * dim + c)];
            for (int c = 0; c < layout.mapped_dim(); ++c)
              from_page +=
                  double(mapped[size_t(r * layout.mapped_dim() + c)]) * decoded[size_t(t * layout.mapped_dim() + c)];
            exact.push_back(from_keys);
            stored.push_back(from_page);
          }
        const double codec_error = rms_difference(exact, stored);
        for (const SimdLevel level : available_levels()) {
          std::vector<float> scores(size_t(kQueries * kPageTokens));
          score(level, layout, page.data(), mapped, kQueries, scores, *scratch);
          EXPECT_LE(rms_difference({scores.begin(), scores.end()}, stored), 0.1 * codec_error)
              << describe("score_page", level, layout.codec, kQueries) << " loud " << loud;
        }
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
      const Expected in_floats = expected_gather(page, weights, rows, before, false);
      const Expected in_integers = expected_gather(page, weights, rows, before, true);
      for (const SimdLevel level : available_levels()) {
        std::vector<float> out = before;
        kernels_for(level).gather_page(page.layout, page.bytes.data(), weights.data(), rows, out.data(), *scratch);
        const Expected& expected = level == SimdLevel::scalar ? in_floats : in_integers;
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
    score(level, keys.layout, keys.bytes.data(), nothing, 2, scores, *scratch);
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
        score(level, layout, page.data(), q, 1, scores, *scratch);
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

TEST(Kernels, AnEmulatedLevelIsOnlyTakenIfAskedFor) {
  if (std::getenv("KVASIR_SIMD")) GTEST_SKIP() << "KVASIR_SIMD asks for a level";
  EXPECT_FALSE(simd_emulated(AttentionOptions::from_environment(1).simd));
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
