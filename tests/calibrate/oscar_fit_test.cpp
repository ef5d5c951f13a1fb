// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/oscar_fit.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/codec_fits.h"
#include "calibrate/rotation_set.h"
#include "codec/page_codec.h"
#include "kvasir/error.h"
#include "tests/calibrate/sample_layer.h"

namespace kvasir {
namespace {

using Eigen::MatrixXd;
using test::coding_error;
using test::exact_moments;
using test::GaussianSource;

constexpr int kDim = 128;

// Keys lie far off centre along what queries look for most, as attention sinks make them: the layer of the paper's
// worked example (Qwen3-4B) has .37 of the queries' energy in one direction and .9 in 54.
struct Model {
  Model() : queries(kDim, 1, 0.93, 21), keys(kDim, 1.5, 0.99, 22), values(kDim, 1, 0.99, 23) {
    keys.set_mean(20 * queries.direction(0) - 14 * queries.direction(1) + 5 * queries.direction(2));
    moments = exact_moments(queries, keys, values, 1);
    metric = queries.covariance();
    rows = keys.rows(16 * kPageTokens, 24);
  }
  double error(OscarRotation rotation, int group) const {
    return coding_error(fit_oscar(moments, Side::key, {.rotation = rotation, .group = group}), metric, rows);
  }
  GaussianSource queries, keys, values;
  LayerMoments moments;
  MatrixXd metric;
  std::vector<float> rows;
};

const Model& model() {
  static const Model one;
  return one;
}

TEST(OscarFit, RotationsAreOrthogonal) {
  for (const OscarRotation kind :
       {OscarRotation::none, OscarRotation::h, OscarRotation::u, OscarRotation::uh, OscarRotation::uhp})
    for (const Side side : {Side::key, Side::value})
      for (const std::vector<float>& r : oscar_rotations(model().moments, side, {.rotation = kind}))
        EXPECT_LT(orthogonality_error(r, kDim), 1e-6);
}

// P only reorders channels: where all of them share one scale, nothing changes.
TEST(OscarFit, PermutingMattersOnlyWithGroups) {
  const auto decoded = [](OscarRotation rotation, int group) {
    const FittedCodec fitted =
        fit_oscar(model().moments, Side::key, {.rotation = rotation, .clip = 0.96f, .group = group});
    const SideLayout layout(fitted.codec, fitted.maps);
    std::vector<std::byte> page(layout.bytes);
    std::vector<float> x(size_t(kPageTokens * kDim));
    encode_page(layout, 0, model().rows.data(), page.data());
    decode_page(layout, 0, page.data(), x.data());
    return x;
  };
  const auto largest = [](const std::vector<float>& a, const std::vector<float>& b) {
    float most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  EXPECT_LT(largest(decoded(OscarRotation::uhp, kDim), decoded(OscarRotation::uh, kDim)), 1e-4f);
  EXPECT_GT(largest(decoded(OscarRotation::uhp, kDim / 2), decoded(OscarRotation::uh, kDim / 2)), 1e-1f);
}

TEST(OscarFit, MapsKeepLogits) {
  const std::vector<float> q = model().queries.rows(kPageTokens, 5);
  for (const bool center : {false, true}) {
    const FittedCodec fitted = fit_oscar(model().moments, Side::key, {.center = center});
    const FittedMap& map = fitted.maps->front();
    EXPECT_EQ(map.mean.empty(), !center);
    std::vector<float> mapped_q(kDim), mapped_k(kDim);
    for (int t = 0; t < kPageTokens; ++t) {
      const float *own_q = &q[size_t(t * kDim)], *own_k = &model().rows[size_t(t * kDim)];
      map.query(own_q, mapped_q.data());
      map.forward(own_k, mapped_k.data());
      double plain = 0, mapped = 0, q_size = 0, k_size = 0;
      for (int c = 0; c < kDim; ++c) {
        const double k = double(own_k[c]) - (center ? double(map.mean[size_t(c)]) : 0.0);
        plain += double(own_q[c]) * k;
        mapped += double(mapped_q[size_t(c)]) * double(mapped_k[size_t(c)]);
        q_size += double(own_q[c]) * double(own_q[c]);
        k_size += double(own_k[c]) * double(own_k[c]);
      }
      EXPECT_NEAR(mapped, plain, 1e-5 * std::sqrt(q_size * k_size));
    }
  }
}

// tr(E_K) in the order of the paper's worked example, two groups a vector: identity 233, H 206, U 1354, U H 208,
// U H P 169. Eigenvectors alone pile what matters and what is large into one group.
TEST(OscarFit, ErrorsAreInThePapersOrder) {
  const double none = model().error(OscarRotation::none, kDim / 2), h = model().error(OscarRotation::h, kDim / 2),
               u = model().error(OscarRotation::u, kDim / 2), uh = model().error(OscarRotation::uh, kDim / 2),
               uhp = model().error(OscarRotation::uhp, kDim / 2);
  RecordProperty("none", std::to_string(none));
  RecordProperty("h", std::to_string(h));
  RecordProperty("u", std::to_string(u));
  RecordProperty("uh", std::to_string(uh));
  RecordProperty("uhp", std::to_string(uhp));
  EXPECT_GT(u, 3 * none);
  EXPECT_GT(u, 3 * h);
  EXPECT_LT(uh, std::min(none, h));
  EXPECT_LT(uhp, 0.95 * uh);
}

// Lemma 1: the Hadamard matrix after the eigenvectors gives every channel the same importance.
TEST(OscarFit, HadamardEvensOutImportance) {
  const auto spread = [](OscarRotation kind) {
    const std::vector<float> r = oscar_rotations(model().moments, Side::key, {.rotation = kind})[0];
    const MatrixXd rotation =
        Eigen::Map<const Eigen::Matrix<float, kDim, kDim, Eigen::RowMajor>>(r.data()).cast<double>();
    const Eigen::VectorXd importance = (rotation.transpose() * model().metric * rotation).diagonal();
    return importance.maxCoeff() / importance.mean();
  };
  EXPECT_NEAR(spread(OscarRotation::uh), 1, 1e-5);
  EXPECT_NEAR(spread(OscarRotation::uhp), 1, 1e-5);
  EXPECT_GT(spread(OscarRotation::h), 1.1);
  EXPECT_GT(spread(OscarRotation::u), 5);
}

// P sends the eigenvector of rank r to the place of r's bits in reverse, whatever the data: 127, 63, 95, 31, ...
TEST(OscarFit, PermutationIsBitReversal) {
  const std::vector<float> uh = oscar_rotations(model().moments, Side::key, {.rotation = OscarRotation::uh})[0];
  const std::vector<float> uhp = oscar_rotations(model().moments, Side::key, {})[0];
  const int from[] = {127, 63, 95, 31, 111, 47, 79, 15};
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < kDim; ++i) EXPECT_EQ(uhp[size_t(i * kDim + j)], uh[size_t(i * kDim + from[j])]) << j;
}

TEST(OscarFit, ClipsAtThePapersRanks) {
  EXPECT_EQ(oscar_clip(Side::key), 0.96f);
  EXPECT_EQ(oscar_clip(Side::value), 0.92f);
  // |y| is 1 .. 128 in some order; what is above the value at the rank becomes it.
  for (const auto& [side, rank] : {std::pair{Side::key, 122}, {Side::value, 117}}) {
    const FittedMap map{.dim = kDim, .mapped_dim = kDim, .rows = {}, .dual = {}, .mean = {}, .clip = oscar_clip(side)};
    std::vector<float> y(kDim), before;
    for (int c = 0; c < kDim; ++c) y[size_t(c)] = float(c * 37 % kDim + 1) * (c % 3 == 0 ? -1.0f : 1.0f);
    before = y;
    map.clip_outliers(y.data());
    int changed = 0;
    for (int c = 0; c < kDim; ++c) {
      const float most = float(rank + 1);
      EXPECT_EQ(y[size_t(c)], std::clamp(before[size_t(c)], -most, most));
      changed += y[size_t(c)] != before[size_t(c)];
    }
    EXPECT_EQ(changed, kDim - 1 - rank);  // 5 of keys, 10 of values
  }
}

TEST(OscarFit, HadamardNeedsAPowerOfTwo) {
  const LayerMoments moments =
      exact_moments(GaussianSource(24, 1, 0.9, 1), GaussianSource(24, 1, 0.9, 2), GaussianSource(24, 1, 0.9, 3), 1);
  EXPECT_THROW(fit_oscar(moments, Side::key, {}), Error);
  EXPECT_NO_THROW(fit_oscar(moments, Side::key, {.rotation = OscarRotation::u}));
}

// The paper's 2.28 bits: 2 + 2 * 16 / 128 a packed value, and 64 + 256 tokens in 16 bits.
TEST(OscarFit, EffectiveBitsAreThePapers) {
  Calibration calibration;
  calibration.layers = {model().moments, model().moments};
  calibration.tokens = 1;
  CacheOptions options;
  options.key = options.value = "oscar2";
  options.sink = 64;
  options.recent = 256;
  options.fitted = std::make_shared<CodecFits>(calibration);
  EXPECT_EQ(bits_per_value(options.fitted->fit("oscar2", Side::key, 0).codec), 2.25);
  EXPECT_EQ(bits_per_value(options.fitted->fit("oscar2", Side::value, 0).codec), 2.25);
  EXPECT_EQ(bits_per_value(options.fitted->fit("oscar2:group=64", Side::value, 0).codec), 2.5);
  Geometry geometry;
  geometry.layers.assign(2, {.heads = 1, .kv_heads = 1, .key_dim = kDim, .value_dim = kDim, .sink_logits = {}});
  for (const auto& [tokens, paper] : {std::pair{131072, 2.284}, {32768, 2.384}}) {
    const double windows = 320.0 / tokens;
    EXPECT_NEAR(2.25 * (1 - windows) + 16 * windows, paper, 5e-4);
    const CacheSize size = plan_size(geometry, options, tokens);
    // Kvasir packs whole pages behind whole blocks: the block that is being written stays in 16 bits beside the paper's
    // 320 tokens, and the recent window has rows for one page more (W + 2 P), so that a block fits in before a page
    // goes out.
    const double token_bytes = double(size.bytes_f16) / tokens;
    EXPECT_EQ(double(size.pages), token_bytes * (tokens - 320 - kPageTokens) * 2.25 / 16);
    EXPECT_EQ(double(size.windows), token_bytes * (320 + 2 * kPageTokens));
    EXPECT_NEAR(size.bits_per_value(), paper, 2.0 * 16 * kPageTokens / tokens);
  }
}

}  // namespace
}  // namespace kvasir
