// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The two matrix products of prefill, on float tiles that lie in the first two cache levels.
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"

namespace kvasir::avx512 {

namespace {

constexpr int kLaneCount = 16;
constexpr int kRowGroup = 12;  // with 2 vectors: 24 accumulators of 32 registers

// c [R, columns] = (c if Add else 0) + a [R, depth] * b [depth, columns] for up to 16 V columns; the last vector takes
// the lanes of `last`.
template <int R, int V, bool Add>
inline void multiply_group(const float* a, ptrdiff_t a_stride, int depth, const float* b, ptrdiff_t b_stride, float* c,
                           ptrdiff_t c_stride, __mmask16 last) {
  __m512 sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < V; ++i) {
      const __mmask16 lanes = i + 1 == V ? last : __mmask16(0xffff);
      sums[r][i] = Add ? _mm512_maskz_loadu_ps(lanes, c + r * c_stride + i * kLaneCount) : _mm512_setzero_ps();
    }
  }
  for (int k = 0; k < depth; ++k) {
    __m512 right[V];
#pragma GCC unroll 2
    for (int i = 0; i < V; ++i) {
      const __mmask16 lanes = i + 1 == V ? last : __mmask16(0xffff);
      right[i] = _mm512_maskz_loadu_ps(lanes, b + k * b_stride + i * kLaneCount);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const __m512 left = _mm512_set1_ps(a[r * a_stride + k]);
#pragma GCC unroll 2
      for (int i = 0; i < V; ++i) sums[r][i] = _mm512_fmadd_ps(left, right[i], sums[r][i]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < V; ++i) {
      const __mmask16 lanes = i + 1 == V ? last : __mmask16(0xffff);
      _mm512_mask_storeu_ps(c + r * c_stride + i * kLaneCount, lanes, sums[r][i]);
    }
  }
}

template <int V, bool Add>
void multiply_rows(const float* a, ptrdiff_t a_stride, int rows, int depth, const float* b, ptrdiff_t b_stride,
                   float* c, ptrdiff_t c_stride, __mmask16 last) {
  int r = 0;
  for (; r + kRowGroup <= rows; r += kRowGroup) {
    multiply_group<kRowGroup, V, Add>(a + r * a_stride, a_stride, depth, b, b_stride, c + r * c_stride, c_stride, last);
  }
  for (; r + 4 <= rows; r += 4) {
    multiply_group<4, V, Add>(a + r * a_stride, a_stride, depth, b, b_stride, c + r * c_stride, c_stride, last);
  }
  for (; r < rows; ++r) {
    multiply_group<1, V, Add>(a + r * a_stride, a_stride, depth, b, b_stride, c + r * c_stride, c_stride, last);
  }
}

// Columns outside, rows inside: a slice of b stays in the first cache level while all of a passes.
template <bool Add>
void multiply(const float* a, ptrdiff_t a_stride, int rows, int depth, const float* b, int columns, float* c) {
  int n = 0;
  for (; n + 2 * kLaneCount <= columns; n += 2 * kLaneCount) {
    multiply_rows<2, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns, 0xffff);
  }
  if (n + kLaneCount < columns) {
    multiply_rows<2, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns,
                          first_lanes(columns - n - kLaneCount));
  } else if (n < columns) {
    multiply_rows<1, Add>(a, a_stride, rows, depth, b + n, columns, c + n, columns, first_lanes(columns - n));
  }
}

}  // namespace

void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores) {
  multiply<false>(q, dim, rows, dim, kt, kPageTokens, scores);
}

void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out) {
  multiply<true>(weights, kPageTokens, rows, tokens, v, dim, out);
}

}  // namespace kvasir::avx512
