// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The plain twin of every kernel.
#include <algorithm>
#include <vector>

#include "base/half.h"
#include "vector/scan.h"
#include "vector/trellis_search.h"

namespace kvasir {
namespace {

void block_dots(const CodeBlock& block, const QueryBatch& queries, int32_t* dots) {
  std::vector<uint8_t> codes(size_t(block.channels));
  for (int v = 0; v < kBlockVectors; ++v) {
    read_codes(block.bits, block.channels, v, block.codes, codes.data());
    if (block.trellis) to_windows(block.bits, block.channels, codes.data());
    for (int q = 0; q < queries.count; ++q) {
      int32_t dot = 0;
      for (int j = 0; j < block.channels; ++j) {
        const int group = j / kGroupChannels, in_group = j % kGroupChannels;
        const int value = queries.values[(group * queries.count + q) * kGroupChannels + in_group];
        dot += (int(block.level[codes[size_t(j)]]) - block.offset) * value;
      }
      dots[q * kBlockVectors + v] = dot;
    }
  }
}

void encode(const float* y, float factor, int n, const float* edges, int edge_count, uint8_t* codes) {
  for (int j = 0; j < n; ++j) {
    const float u = y[j] * factor;
    codes[j] = uint8_t(std::upper_bound(edges, edges + edge_count, u) - edges);
  }
}

// Eight running sums: the rounding error grows with n / 8, and compilers make vectors of them.
template <typename Load>
float dot_of(const float* b, int n, Load load) {
  float sum[8] = {};
  int j = 0;
  for (; j + 8 <= n; j += 8)
    for (int i = 0; i < 8; ++i) sum[i] += load(j + i) * b[j + i];
  for (; j < n; ++j) sum[j % 8] += load(j) * b[j];
  return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

float dot(const float* a, const float* b, int n) {
  return dot_of(b, n, [a](int j) { return a[j]; });
}
float dot_f16(const uint16_t* a, const float* b, int n) {
  return dot_of(b, n, [a](int j) { return f16_to_float(a[j]); });
}

void dot_tile(const float* a, int a_rows, const float* b, int b_rows, int n, float* out) {
  for (int i = 0; i < a_rows; ++i)
    for (int j = 0; j < b_rows; ++j) out[i * b_rows + j] = dot(a + size_t(i) * size_t(n), b + size_t(j) * size_t(n), n);
}

}  // namespace

const ScanKernels& scalar_scan() {
  static const ScanKernels kernels = {ScanLevel::scalar, block_dots, encode, encode_with_trellis, dot,
                                      dot_f16,           dot_tile};
  return kernels;
}

}  // namespace kvasir
