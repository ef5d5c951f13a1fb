// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "transform/rotation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "base/random.h"
#include "transform/page_columns.h"

namespace kvasir {
namespace {

std::vector<double> normal_matrix(int dim, uint64_t seed) {
  SplitMix random(SplitMix(seed).next() ^ uint64_t(dim));
  std::vector<double> matrix(size_t(dim) * size_t(dim));
  for (double& x : matrix) x = random.normal();
  return matrix;
}

// Four sums side by side: one alone waits for its own last addition.
double dot(const double* x, const double* y, int n) {
  double sums[4] = {};
  for (int i = 0; i < n; ++i) sums[i % 4] += x[i] * y[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Gram-Schmidt over the rows, which is the Q of a QR factorization with a positive diagonal: Haar-distributed if the
// rows are normal. Each row is orthogonalised twice, so that the result is orthogonal to the last bits of a double.
void orthonormalize(std::vector<double>& rows, int dim) {
  for (int i = 0; i < dim; ++i) {
    double* row = rows.data() + i * dim;
    for (int pass = 0; pass < 2; ++pass)
      for (int j = 0; j < i; ++j) {
        const double* done = rows.data() + j * dim;
        const double along = dot(row, done, dim);
        for (int c = 0; c < dim; ++c) row[c] -= along * done[c];
      }
    const double inverse = 1 / std::sqrt(dot(row, row, dim));
    for (int c = 0; c < dim; ++c) row[c] *= inverse;
  }
}

// y = sum over j of x[j] * column j: the inner loop runs over y, so it vectorises and adds in a fixed order.
void combine(const std::vector<float>& columns, int dim, const float* x, float* y) {
  thread_local std::vector<float> sum;
  sum.assign(size_t(dim), 0.0f);
  for (int j = 0; j < dim; ++j) {
    const float* column = columns.data() + size_t(j) * size_t(dim);
    for (int i = 0; i < dim; ++i) sum[size_t(i)] += x[j] * column[i];
  }
  std::copy(sum.begin(), sum.end(), y);
}

}  // namespace

Rotation::Rotation(RotationKind kind, int dim, uint64_t seed) : dim_(dim) {
  if (kind == RotationKind::signed_fwht) {
    fast_.emplace(dim, seed);
    return;
  }
  std::vector<double> matrix = normal_matrix(dim, seed);
  if (kind == RotationKind::haar) {
    orthonormalize(matrix, dim);
  } else {
    for (double& x : matrix) x /= std::sqrt(double(dim));
  }
  rows_.assign(matrix.begin(), matrix.end());
  columns_.resize(rows_.size());
  for (int i = 0; i < dim; ++i)
    for (int j = 0; j < dim; ++j) columns_[size_t(j * dim + i)] = rows_[size_t(i * dim + j)];
}

const Rotation& Rotation::of(RotationKind kind, int dim, uint64_t seed) {
  static std::mutex mutex;
  static std::map<std::tuple<RotationKind, int, uint64_t>, Rotation> cache;
  const std::lock_guard lock(mutex);
  const std::tuple key(kind, dim, seed);
  const auto found = cache.find(key);
  return found != cache.end() ? found->second : cache.emplace(key, Rotation(kind, dim, seed)).first->second;
}

void Rotation::forward(const float* x, float* y) const {
  if (!fast_) return combine(columns_, dim_, x, y);
  if (x != y) std::copy(x, x + dim_, y);
  fast_->forward(y);
}

void Rotation::forward(const PageColumns& columns, const float* x, float* y) const {
  if (!fast_) return columns.multiply(rows_.data(), dim_, dim_, x, y);
  std::copy_n(x, dim_ * kColumns, y);
  fast_->forward(columns, y);
}

void Rotation::transpose(const float* y, float* x) const {
  if (!fast_) return combine(rows_, dim_, y, x);
  if (x != y) std::copy(y, y + dim_, x);
  fast_->inverse(x);
}

}  // namespace kvasir
