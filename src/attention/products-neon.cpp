// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The two matrix products of prefill, on float tiles that lie in the first two cache levels.
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"
#include "attention/row_groups.h"

namespace kvasir::neon {

namespace {

constexpr int kRowGroup = 6;  // with 4 vectors: 24 accumulators of 32 registers

// c [R, 4 V] = (c if Add else 0) + a [R, depth] * b [depth, 4 V].
template <int R, int V, bool Add>
inline void multiply_group(const float* a, ptrdiff_t a_stride, int depth, const float* b, ptrdiff_t b_stride, float* c,
                           ptrdiff_t c_stride) {
  float32x4_t sums[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) sums[r][i] = Add ? vld1q_f32(c + r * c_stride + i * kLaneCount) : vdupq_n_f32(0.0f);
  }
  for (int k = 0; k < depth; ++k) {
    float32x4_t right[V];
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) right[i] = vld1q_f32(b + k * b_stride + i * kLaneCount);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const float left = a[r * a_stride + k];
#pragma GCC unroll 4
      for (int i = 0; i < V; ++i) sums[r][i] = vfmaq_n_f32(sums[r][i], right[i], left);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) vst1q_f32(c + r * c_stride + i * kLaneCount, sums[r][i]);
  }
}

template <int V, bool Add>
void multiply_rows(const float* a, ptrdiff_t a_stride, int rows, int depth, const float* b, ptrdiff_t b_stride,
                   float* c, ptrdiff_t c_stride) {
  in_groups_of<kRowGroup>(rows, [&](auto group, int r) {
    multiply_group<decltype(group)::value, V, Add>(a + r * a_stride, a_stride, depth, b, b_stride, c + r * c_stride,
                                                   c_stride);
  });
}

// Columns outside, rows inside: a slice of b stays in the first cache level while all of a passes.
template <bool Add>
void multiply(const float* a, ptrdiff_t a_stride, int rows, int depth, const float* b, int columns, float* c) {
  int n = 0;
  for (; n + 4 * kLaneCount <= columns; n += 4 * kLaneCount) {
    multiply_rows<4, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns);
  }
  if (n < columns) multiply_rows<2, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns);
}

}  // namespace

void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores) {
  multiply<false>(q, dim, rows, dim, kt, kPageTokens, scores);
}

void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out) {
  multiply<true>(weights, kPageTokens, rows, tokens, v, dim, out);
}

}  // namespace kvasir::neon
