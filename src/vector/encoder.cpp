// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/encoder.h"

#include <algorithm>
#include <cmath>

#include "vector/trellis.h"

namespace kvasir {
namespace {

static_assert(VectorEncoder::kRows * kTrellisSequences == kTrellisLanes);

// <c, y>, whose terms are hardly ever negative; four sums, for speed. `windows` are the codes of a scalar table.
double product(const CodeTable& table, const uint8_t* windows, const float* y, int n) {
  double sum[4] = {};
  for (int j = 0; j < n; j += 4)
    for (int i = 0; i < 4; ++i) sum[i] += double(table.value[windows[j + i]] * y[j + i]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

int rotated_channels(int dim) {
  int channels = (std::max(dim, kChunkChannels) + kChunkChannels - 1) / kChunkChannels * kChunkChannels;
  while (!SignedFwht::supports(channels)) channels += kChunkChannels;
  return channels;
}

double squared_length(const float* x, int n) {
  double sum[4] = {};
  int j = 0;
  for (; j + 4 <= n; j += 4)
    for (int i = 0; i < 4; ++i) sum[i] += double(x[j + i]) * double(x[j + i]);
  for (; j < n; ++j) sum[0] += double(x[j]) * double(x[j]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

VectorEncoder::VectorEncoder(int dim, const CodeTable& table, uint64_t seed)
    : dim_(dim), table_(table), map_(rotated_channels(dim), seed) {}

VectorEncoder::Workspace VectorEncoder::workspace() const {
  const size_t size = size_t(kRows) * size_t(channels());
  Workspace workspace;
  workspace.y.resize(size);
  workspace.codes.resize(size);
  if (table_.trellis()) {
    workspace.targets.resize(size);
    workspace.scratch.resize(trellis_scratch(channels() / kTrellisSequences));
  }
  return workspace;
}

void VectorEncoder::rotate(const float* x, float factor, std::span<const float> mean, float* y) const {
  for (int j = 0; j < dim_; ++j) y[j] = x[j] * factor;
  for (size_t j = 0; j < mean.size(); ++j) y[j] -= mean[j];
  std::fill(y + dim_, y + channels(), 0.0f);
  map_.forward(y);
}

void VectorEncoder::encode_trellis(const ScanKernels& kernels, Workspace& workspace, int rows,
                                   const float* factors) const {
  const int n = channels(), steps = n / kTrellisSequences;
  constexpr float kLargest = float(kTrellisLargest) / 4, kUnits = float(kTrellisScale) / 4;
  std::fill(workspace.targets.begin(), workspace.targets.end(), 0);
  for (int row = 0; row < rows; ++row) {
    const float* y = &workspace.y[size_t(row) * size_t(n)];
    const float factor = factors[row] * (kUnits / table_.step);
    for (int j = 0; j < n; ++j) {
      const float units = std::clamp(y[j] * factor, -kLargest, kLargest);
      const int lane = row * kTrellisSequences + j % kTrellisSequences;
      workspace.targets[size_t(j / kTrellisSequences * kTrellisLanes + lane)] = 4 * int32_t(std::lrint(units));
    }
  }
  kernels.encode_trellis(table_.bits, table_.level.data(), workspace.targets.data(), steps, workspace.scratch.data(),
                         workspace.codes.data());
}

void VectorEncoder::encode(const ScanKernels& kernels, Workspace& workspace, int rows, Encoded* encoded) const {
  const int n = channels();
  double lengths[kRows] = {};
  float factors[kRows] = {};
  for (int row = 0; row < rows; ++row) {
    const float* y = &workspace.y[size_t(row) * size_t(n)];
    lengths[row] = std::sqrt(squared_length(y, n));
    const bool zero = lengths[row] < double(kSmallestLength);
    factors[row] = zero ? 0.0f : float(std::sqrt(double(n)) / lengths[row]);
    if (!table_.trellis())
      kernels.encode(y, factors[row], n, table_.edges.data(), table_.entries() - 1,
                     &workspace.codes[size_t(row) * size_t(n)]);
  }
  if (table_.trellis()) encode_trellis(kernels, workspace, rows, factors);

  std::vector<uint8_t> windows;
  for (int row = 0; row < rows; ++row) {
    encoded[row] = {};
    if (factors[row] == 0.0f) continue;
    const uint8_t* codes = &workspace.codes[size_t(row) * size_t(n)];
    if (table_.trellis()) {
      windows.assign(codes, codes + n);
      to_windows(table_.bits, n, windows.data());
      codes = windows.data();
    }
    const double along = product(table_, codes, &workspace.y[size_t(row) * size_t(n)], n);
    // Far below any code that was ever seen: nothing to gain from a scale without bias then.
    const double full = lengths[row] * std::sqrt(double(n));
    const double scale = along < full / 4 ? lengths[row] / std::sqrt(double(n)) : lengths[row] * lengths[row] / along;
    encoded[row] = {float(lengths[row]), float(scale)};
  }
}

void VectorEncoder::decode(const uint8_t* codes, float scale, std::span<const float> mean, float* x) const {
  std::vector<uint8_t> windows(codes, codes + channels());
  if (table_.trellis()) to_windows(table_.bits, channels(), windows.data());
  std::vector<float> y(windows.size());
  for (size_t j = 0; j < y.size(); ++j) y[j] = scale * table_.value[windows[j]];
  map_.inverse(y.data());
  std::copy(y.begin(), y.begin() + dim_, x);
  for (size_t j = 0; j < mean.size(); ++j) x[j] += mean[j];
}

}  // namespace kvasir
