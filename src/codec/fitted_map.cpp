// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/fitted_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvasir {

// Sums in the order of the channels, as those of a page in columns: eight rows side by side, since one sum alone waits
// for its own last addition.
void FittedMap::forward(const float* x, float* y) const {
  constexpr int kRows = 8;
  for (int first = 0; first < mapped_dim; first += kRows) {
    const int count = std::min(kRows, mapped_dim - first);
    float sums[kRows] = {};
    for (int c = 0; c < dim; ++c) {
      const float value = mean.empty() ? x[c] : x[c] - mean[size_t(c)];
      for (int j = 0; j < count; ++j) sums[j] += rows[size_t((first + j) * dim + c)] * value;
    }
    std::copy_n(sums, count, y + first);
  }
}

void FittedMap::forward(const PageColumns& columns, const float* x, float* y) const {
  if (mean.empty()) return columns.multiply(rows.data(), mapped_dim, dim, x, y);
  thread_local std::vector<float> centered;
  centered.resize(size_t(dim) * kColumns);
  for (int c = 0; c < dim; ++c)
    for (int t = 0; t < kColumns; ++t) centered[size_t(c * kColumns + t)] = x[c * kColumns + t] - mean[size_t(c)];
  columns.multiply(rows.data(), mapped_dim, dim, centered.data(), y);
}

void FittedMap::query(const float* q, float* y) const {
  for (int j = 0; j < mapped_dim; ++j)
    y[j] = std::inner_product(q, q + dim, dual.data() + size_t(j) * size_t(dim), 0.0f);
}

void FittedMap::inverse(const float* y, float* x) const {
  thread_local std::vector<float> sum;
  sum.assign(size_t(dim), 0.0f);
  for (int j = 0; j < mapped_dim; ++j) {
    const float* row = dual.data() + size_t(j) * size_t(dim);
    for (int c = 0; c < dim; ++c) sum[size_t(c)] += y[j] * row[c];
  }
  std::copy(sum.begin(), sum.end(), x);
}

int FittedMap::clip_rank() const {
  return clip <= 0 ? 0 : mapped_dim - std::min(int(clip * float(mapped_dim)), mapped_dim - 1);
}

void FittedMap::clip_outliers(float* y) const {
  if (clip <= 0) return;
  const int rank = mapped_dim - clip_rank();
  thread_local std::vector<float> magnitudes;
  magnitudes.resize(size_t(mapped_dim));
  for (int c = 0; c < mapped_dim; ++c) magnitudes[size_t(c)] = std::abs(y[c]);
  std::nth_element(magnitudes.begin(), magnitudes.begin() + rank, magnitudes.end());
  const float most = magnitudes[size_t(rank)];
  for (int c = 0; c < mapped_dim; ++c) y[c] = std::clamp(y[c], -most, most);
}

}  // namespace kvasir
