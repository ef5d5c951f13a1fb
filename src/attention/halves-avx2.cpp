// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over rows of 16-bit floats: windows and raw pages.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"

namespace kvasir::avx2 {

namespace {

constexpr int kLaneCount = 8;
constexpr int kRowGroup = 3;  // with 4 tokens or 4 vectors of channels: 12 accumulators
constexpr int kTokenGroup = 4;

// Rows of the next group when `left` are to do: four are two and two, since a single row uses a load only once.
inline int next_rows(int left) {
  return left == 4 ? 2 : left < kRowGroup ? left : kRowGroup;
}

// Sums of the lanes of four vectors, in order.
inline __m128 sum_lanes4(const __m256 (&x)[4]) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

template <HalfKind kind, int R, int T>
inline void score_group(const uint16_t* k, int k_stride, int dim, const float* q, int q_stride, float* scores) {
  __m256 sums[R][T];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) sums[r][t] = _mm256_setzero_ps();
  }
  for (int c = 0; c < dim; c += kLaneCount) {
    __m256 query[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) query[r] = _mm256_loadu_ps(q + r * q_stride + c);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const __m256 key = load_halves<kind>(k + t * k_stride + c);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r][t] = _mm256_fmadd_ps(query[r], key, sums[r][t]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    float* at = scores + r * kPageTokens;
    if constexpr (T == kTokenGroup) {
      _mm_storeu_ps(at, _mm_add_ps(_mm_loadu_ps(at), sum_lanes4(sums[r])));
    } else {
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) at[t] += sum_lanes(sums[r][t]);
    }
  }
}

template <HalfKind kind, int R>
void score_rows(const uint16_t* k, int k_stride, int tokens, int dim, const float* q, int q_stride, float* scores) {
  int t = 0;
  for (; t + kTokenGroup <= tokens; t += kTokenGroup) {
    score_group<kind, R, kTokenGroup>(k + t * k_stride, k_stride, dim, q, q_stride, scores + t);
  }
  for (; t < tokens; ++t) score_group<kind, R, 1>(k + t * k_stride, k_stride, dim, q, q_stride, scores + t);
}

template <HalfKind kind>
void score_all(const uint16_t* k, int k_stride, int tokens, int dim, const float* q, int q_stride, int rows,
               float* scores) {
  for (int r = 0, now = 0; r < rows; r += now) {
    now = next_rows(rows - r);
    const float* from = q + r * q_stride;
    float* to = scores + r * kPageTokens;
    switch (now) {
      case 1: score_rows<kind, 1>(k, k_stride, tokens, dim, from, q_stride, to); break;
      case 2: score_rows<kind, 2>(k, k_stride, tokens, dim, from, q_stride, to); break;
      default: score_rows<kind, kRowGroup>(k, k_stride, tokens, dim, from, q_stride, to); break;
    }
  }
}

template <HalfKind kind, int R, int V>
inline void gather_group(const uint16_t* v, int v_stride, int tokens, const float* weights, float* out,
                         int out_stride) {
  __m256 sums[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) sums[r][i] = _mm256_loadu_ps(out + r * out_stride + i * kLaneCount);
  }
  for (int t = 0; t < tokens; ++t) {
    __m256 weight[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) weight[r] = _mm256_set1_ps(weights[r * kPageTokens + t]);
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) {
      const __m256 value = load_halves<kind>(v + t * v_stride + i * kLaneCount);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r][i] = _mm256_fmadd_ps(weight[r], value, sums[r][i]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) _mm256_storeu_ps(out + r * out_stride + i * kLaneCount, sums[r][i]);
  }
}

template <HalfKind kind, int R>
void gather_rows(const uint16_t* v, int v_stride, int tokens, int dim, const float* weights, float* out,
                 int out_stride) {
  int c = 0;
  for (; c + 4 * kLaneCount <= dim; c += 4 * kLaneCount) {
    gather_group<kind, R, 4>(v + c, v_stride, tokens, weights, out + c, out_stride);
  }
  for (; c + 2 * kLaneCount <= dim; c += 2 * kLaneCount) {
    gather_group<kind, R, 2>(v + c, v_stride, tokens, weights, out + c, out_stride);
  }
  if (c < dim) gather_group<kind, R, 1>(v + c, v_stride, tokens, weights, out + c, out_stride);
}

template <HalfKind kind>
void gather_all(const uint16_t* v, int v_stride, int tokens, int dim, const float* weights, int rows, float* out,
                int out_stride) {
  for (int r = 0, now = 0; r < rows; r += now) {
    now = next_rows(rows - r);
    const float* from = weights + r * kPageTokens;
    float* to = out + r * out_stride;
    switch (now) {
      case 1: gather_rows<kind, 1>(v, v_stride, tokens, dim, from, to, out_stride); break;
      case 2: gather_rows<kind, 2>(v, v_stride, tokens, dim, from, to, out_stride); break;
      default: gather_rows<kind, kRowGroup>(v, v_stride, tokens, dim, from, to, out_stride); break;
    }
  }
}

}  // namespace

void add_score_halves(HalfKind kind, const uint16_t* k, int k_stride, int tokens, int dim, const float* q, int q_stride,
                      int rows, float* scores) {
  if (kind == HalfKind::f16) {
    score_all<HalfKind::f16>(k, k_stride, tokens, dim, q, q_stride, rows, scores);
  } else {
    score_all<HalfKind::bf16>(k, k_stride, tokens, dim, q, q_stride, rows, scores);
  }
}

void add_gather_halves(HalfKind kind, const uint16_t* v, int v_stride, int tokens, int dim, const float* weights,
                       int rows, float* out, int out_stride) {
  if (kind == HalfKind::f16) {
    gather_all<HalfKind::f16>(v, v_stride, tokens, dim, weights, rows, out, out_stride);
  } else {
    gather_all<HalfKind::bf16>(v, v_stride, tokens, dim, weights, rows, out, out_stride);
  }
}

void score_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, const float* q, int rows, float* scores) {
  for (int r = 0; r < rows; ++r) std::memset(scores + r * kPageTokens, 0, size_t(tokens) * sizeof(float));
  add_score_halves(kind, k, dim, tokens, dim, q, dim, rows, scores);
}

void gather_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, const float* weights, int rows, float* out) {
  add_gather_halves(kind, v, dim, tokens, dim, weights, rows, out, dim);
}

}  // namespace kvasir::avx2
