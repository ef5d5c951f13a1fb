// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The two matrix products of prefill, on float tiles that lie in the first two cache levels.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"
#include "attention/row_groups.h"

namespace kvasir::avx2 {

namespace {

constexpr int kLaneCount = 8;
constexpr int kRowGroup = 6;  // with 2 vectors: 12 accumulators, enough to hide the latency of FMA on two ports

// c [R, 8 V] = (c if Add else 0) + a [R, depth] * b [depth, 8 V].
template <int R, int V, bool Add>
inline void multiply_group(const float* a, ptrdiff_t a_stride, int depth, const float* b, ptrdiff_t b_stride, float* c,
                           ptrdiff_t c_stride) {
  __m256 sums[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < V; ++i) {
      sums[r][i] = Add ? _mm256_loadu_ps(c + r * c_stride + i * kLaneCount) : _mm256_setzero_ps();
    }
  }
  for (int k = 0; k < depth; ++k) {
    __m256 right[V];
#pragma GCC unroll 2
    for (int i = 0; i < V; ++i) right[i] = _mm256_loadu_ps(b + k * b_stride + i * kLaneCount);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m256 left = _mm256_broadcast_ss(a + r * a_stride + k);
#pragma GCC unroll 2
      for (int i = 0; i < V; ++i) sums[r][i] = _mm256_fmadd_ps(left, right[i], sums[r][i]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < V; ++i) _mm256_storeu_ps(c + r * c_stride + i * kLaneCount, sums[r][i]);
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
  for (; n + 2 * kLaneCount <= columns; n += 2 * kLaneCount) {
    multiply_rows<2, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns);
  }
  if (n < columns) multiply_rows<1, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns);
}

}  // namespace

void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores) {
  multiply<false>(q, dim, rows, dim, kt, kPageTokens, scores);
}

void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out) {
  multiply<true>(weights, kPageTokens, rows, tokens, v, dim, out);
}

}  // namespace kvasir::avx2
