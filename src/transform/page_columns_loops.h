// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The body of page_columns*.cpp, each of which is compiled for another instruction set: everything here is internal to
// the file that includes it. Includers define before:
//
//   Floats           as many floats as a register holds
//   kRegisterRows    rows of a matrix that are multiplied at once: 4 vectors of sums each
#pragma once

#include "transform/page_columns.h"

namespace kvasir {
namespace {

constexpr int kLanes = int(sizeof(Floats) / sizeof(float));

using Four = float __attribute__((vector_size(16), aligned(4), may_alias));

inline void to_columns(const float* rows, int dim, float* columns) {
  for (int t = 0; t < kColumns; t += 4)
    for (int c = 0; c < dim; c += 4) {
      Four in[4];
      for (int i = 0; i < 4; ++i) in[i] = *reinterpret_cast<const Four*>(rows + (t + i) * dim + c);
      const Four a = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
      const Four b = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
      const Four d = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
      const Four e = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
      float* out = columns + c * kColumns + t;
      *reinterpret_cast<Four*>(out) = __builtin_shufflevector(a, b, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(out + kColumns) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
      *reinterpret_cast<Four*>(out + 2 * kColumns) = __builtin_shufflevector(d, e, 0, 1, 4, 5);
      *reinterpret_cast<Four*>(out + 3 * kColumns) = __builtin_shufflevector(d, e, 2, 3, 6, 7);
    }
}

// Rows rows of the matrix, kVectors vectors of columns: sums stay in registers.
template <int Rows, int Vectors>
inline void multiply_block(const float* matrix, int dim, const float* x, float* y) {
  Floats sums[Rows][Vectors] = {};
  for (int c = 0; c < dim; ++c) {
    Floats in[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) in[v] = *reinterpret_cast<const Floats*>(x + c * kColumns + v * kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < Rows; ++j)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sums[j][v] += matrix[j * dim + c] * in[v];
  }
#pragma GCC unroll 8
  for (int j = 0; j < Rows; ++j)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Floats*>(y + j * kColumns + v * kLanes) = sums[j][v];
}

inline void multiply(const float* matrix, int count, int dim, const float* x, float* y) {
  constexpr int kVectors = kColumns / kLanes < 4 ? kColumns / kLanes : 4;
  for (int first = 0; first < kColumns; first += kVectors * kLanes) {
    int j = 0;
    for (; j + kRegisterRows <= count; j += kRegisterRows)
      multiply_block<kRegisterRows, kVectors>(matrix + j * dim, dim, x + first, y + j * kColumns + first);
    for (; j < count; ++j) multiply_block<1, kVectors>(matrix + j * dim, dim, x + first, y + j * kColumns + first);
  }
}

// Two stages a pass, as SignedFwht has them.
inline void hadamard(float* x, int n) {
  int half = 1;
  for (; 4 * half <= n; half *= 4)
    for (int i = 0; i < n; i += 4 * half)
      for (int j = i; j < i + half; ++j) {
        float *r0 = x + j * kColumns, *r1 = r0 + half * kColumns, *r2 = r1 + half * kColumns,
              *r3 = r2 + half * kColumns;
#pragma GCC ivdep
        for (int t = 0; t < kColumns; ++t) {
          const float a = r0[t] + r1[t], b = r0[t] - r1[t], c = r2[t] + r3[t], d = r2[t] - r3[t];
          r0[t] = a + c;
          r1[t] = b + d;
          r2[t] = a - c;
          r3[t] = b - d;
        }
      }
  if (half == n) return;
  for (int j = 0; j < half; ++j) {
    float *r0 = x + j * kColumns, *r1 = r0 + half * kColumns;
#pragma GCC ivdep
    for (int t = 0; t < kColumns; ++t) {
      const float a = r0[t], b = r1[t];
      r0[t] = a + b;
      r1[t] = a - b;
    }
  }
}

inline void scale(const float* factors, int channels, float* x) {
  for (int c = 0; c < channels; ++c)
    for (int t = 0; t < kColumns; ++t) x[c * kColumns + t] *= factors[c];
}

inline void scale_all(float factor, int channels, float* x) {
  for (int i = 0; i < channels * kColumns; ++i) x[i] *= factor;
}

constexpr PageColumns kLoops = {to_columns, multiply, hadamard, scale, scale_all};

}  // namespace
}  // namespace kvasir
