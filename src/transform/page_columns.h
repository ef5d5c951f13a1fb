// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Maps of 64 vectors at once. They lie in columns, [channels][64]: a machine vector then holds one channel of several
// of them, and each of the 64 goes through the arithmetic that it would go through alone. So results are the same to
// the last bit on every instruction set, and the same as those of SignedFwht and Rotation one vector after the other.
#pragma once

#include <vector>

namespace kvasir {

inline constexpr int kColumns = 64;

// One instruction set's.
struct PageColumns {
  // rows [64][dim] to columns [dim][64]; dim is a multiple of 4.
  void (*to_columns)(const float* rows, int dim, float* columns);
  // y[j] = sum over c, in their order, of matrix[j][c] x[c]; matrix is [count][dim], x [dim][64], y [count][64].
  void (*multiply)(const float* matrix, int count, int dim, const float* x, float* y);
  // The Walsh-Hadamard transform of n channels in place, without a factor; n is a power of two.
  void (*hadamard)(float* x, int n);
  // In place: each channel times its own factor; all times one.
  void (*scale)(const float* factors, int channels, float* x);
  void (*scale_all)(float factor, int channels, float* x);
};

// The fastest that this processor runs.
const PageColumns& page_columns();
// All that it runs, the plain one first.
std::vector<const PageColumns*> all_page_columns();

const PageColumns& plain_page_columns();
#ifdef KVASIR_X86
namespace avx2 {
const PageColumns& page_columns();
}
namespace avx512 {
const PageColumns& page_columns();
}
#endif

}  // namespace kvasir
