// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scores and weighted sums over rows of 16-bit floats: windows and raw pages.
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"
#include "attention/row_groups.h"

namespace kvasir::neon {

namespace {

constexpr int kRowGroup = 4;  // with 4 tokens or 4 vectors of channels: 16 accumulators of 32 registers
constexpr int kTokenGroup = 4;

// Sums of the lanes of four vectors, in order.
inline float32x4_t sum_lanes4(const float32x4_t (&x)[4]) {
  return vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3]));
}

template <HalfKind kind, int R, int T>
inline void score_group(const uint16_t* k, int k_stride, int dim, const float* q, int q_stride, float* scores) {
  float32x4_t sums[R][T];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) sums[r][t] = vdupq_n_f32(0.0f);
  }
  for (int c = 0; c < dim; c += kLaneCount) {
    float32x4_t query[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) query[r] = vld1q_f32(q + r * q_stride + c);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const float32x4_t key = load_halves<kind>(k + t * k_stride + c);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r][t] = vfmaq_f32(sums[r][t], query[r], key);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    float* at = scores + r * kPageTokens;
    if constexpr (T == kTokenGroup) {
      vst1q_f32(at, vaddq_f32(vld1q_f32(at), sum_lanes4(sums[r])));
    } else {
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) at[t] += vaddvq_f32(sums[r][t]);
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
  in_groups_of<kRowGroup>(rows, [&](auto group, int r) {
    score_rows<kind, decltype(group)::value>(k, k_stride, tokens, dim, q + r * q_stride, q_stride,
                                             scores + r * kPageTokens);
  });
}

template <HalfKind kind, int R, int V>
inline void gather_group(const uint16_t* v, int v_stride, int tokens, const float* weights, float* out,
                         int out_stride) {
  float32x4_t sums[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) sums[r][i] = vld1q_f32(out + r * out_stride + i * kLaneCount);
  }
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) {
      const float32x4_t value = load_halves<kind>(v + t * v_stride + i * kLaneCount);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r][i] = vfmaq_n_f32(sums[r][i], value, weights[r * kPageTokens + t]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < V; ++i) vst1q_f32(out + r * out_stride + i * kLaneCount, sums[r][i]);
  }
}

template <HalfKind kind, int R>
void gather_rows(const uint16_t* v, int v_stride, int tokens, int dim, const float* weights, float* out,
                 int out_stride) {
  int c = 0;
  for (; c + 4 * kLaneCount <= dim; c += 4 * kLaneCount) {
    gather_group<kind, R, 4>(v + c, v_stride, tokens, weights, out + c, out_stride);
  }
  if (c < dim) gather_group<kind, R, 2>(v + c, v_stride, tokens, weights, out + c, out_stride);
}

template <HalfKind kind>
void gather_all(const uint16_t* v, int v_stride, int tokens, int dim, const float* weights, int rows, float* out,
                int out_stride) {
  in_groups_of<kRowGroup>(rows, [&](auto group, int r) {
    gather_rows<kind, decltype(group)::value>(v, v_stride, tokens, dim, weights + r * kPageTokens, out + r * out_stride,
                                              out_stride);
  });
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

}  // namespace kvasir::neon
