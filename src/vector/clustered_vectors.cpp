// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/clustered_vectors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "base/random.h"
#include "vector/encoder.h"

namespace kvasir {
namespace {

constexpr uint64_t kCenters = 0xc0ffee0000000000ull, kRows = 0xda7a000000000000ull, kAxes = 0xa8e5ull;

// Two values a step, since a hundred million are drawn.
void add_normals(uint64_t seed, double share, const std::vector<float>& deviation, float* z) {
  SplitMix random(seed);
  const double factor = std::sqrt(share);
  for (size_t j = 0; j < deviation.size(); j += 2) {
    const double radius = factor * std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
    const double angle = 2.0 * std::numbers::pi * random.uniform();
    z[j] += float(radius * std::cos(angle)) * deviation[j];
    if (j + 1 < deviation.size()) z[j + 1] += float(radius * std::sin(angle)) * deviation[j + 1];
  }
}

uint64_t seed_of(uint64_t seed, uint64_t kind, uint64_t index) {
  return SplitMix(SplitMix(seed ^ kind).next() + index).next();
}

}  // namespace

std::vector<float> clustered_vectors(const ClusteredVectors& options, int64_t first, int64_t count, int threads) {
  const size_t dim = size_t(options.dim);
  std::vector<float> deviation(dim);
  for (size_t j = 0; j < dim; ++j) deviation[j] = float(std::pow(double(j + 1), -0.5 * options.decay));
  const int channels = rotated_channels(options.dim);
  // Where the rotation pads, the extra channels are cut off again: still a fixed linear map.
  const SignedFwht axes(channels, options.seed ^ kAxes);

  std::vector<float> centers(size_t(options.clusters) * dim, 0.0f);
  parallel_for(options.clusters, threads, [&](int c, int) {
    add_normals(seed_of(options.seed, kCenters, uint64_t(c)), 1.0, deviation, &centers[size_t(c) * dim]);
  });
  std::vector<float> rows(size_t(count) * dim);
  constexpr int64_t kRowsOfATask = 64;
  parallel_for(int((count + kRowsOfATask - 1) / kRowsOfATask), threads, [&](int task, int) {
    std::vector<float> z(static_cast<size_t>(channels));
    const int64_t end = std::min(count, int64_t(task + 1) * kRowsOfATask);
    for (int64_t i = int64_t(task) * kRowsOfATask; i < end; ++i) {
      const uint64_t seed = seed_of(options.seed, kRows, uint64_t(first + i));
      const size_t c = size_t(SplitMix(~seed).below(uint64_t(options.clusters)));
      const float center_share = float(std::sqrt(1.0 - options.spread));
      std::fill(z.begin(), z.end(), 0.0f);
      for (size_t j = 0; j < dim; ++j) z[j] = center_share * centers[c * dim + j];
      add_normals(seed, options.spread, deviation, z.data());
      axes.forward(z.data());
      const double length = std::max(1e-30, std::sqrt(squared_length(z.data(), options.dim)));
      for (size_t j = 0; j < dim; ++j) rows[size_t(i) * dim + j] = float(double(z[j]) / length);
    }
  });
  return rows;
}

}  // namespace kvasir
