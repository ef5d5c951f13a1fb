// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The randomised rotation y = (Hartley_m (x) Walsh-Hadamard_{2^k}) diag(signs) x / sqrt(d) for d = m 2^k, m odd.
//
// For a power of two it is the signed Walsh-Hadamard transform. Other head dims (72 = 9*8, 80 = 5*16, 96 = 3*32,
// 112 = 7*16) get the real discrete Hartley transform across their odd part, which is symmetric, orthogonal and flat
// (every entry at most sqrt(2/m)), so nothing is padded. The signs are not optional: without them a constant vector
// lands on one channel and the 3-bit error rises twentyfold.
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir {

struct PageColumns;

class SignedFwht {
 public:
  // dim must be m 2^k with k >= 1 and m odd, m <= 63. Throws Error unsupported. The signs are a pure function of
  // (dim, seed).
  explicit SignedFwht(int dim, uint64_t seed = kDefaultSeed);

  static constexpr uint64_t kDefaultSeed = 0x6b76617369720001ull;
  static bool supports(int dim);
  // The shared instance of the default seed.
  static const SignedFwht& of(int dim);

  int dim() const { return dim_; }
  void forward(float* x) const;  // y = T x in place, x is [dim]
  // The same of 64 vectors, [dim][64] (transform/page_columns.h).
  void forward(const PageColumns& columns, float* x) const;
  void inverse(float* y) const;  // x = T^T y in place

 private:
  void symmetric(float* x) const;  // the part without signs: its own inverse

  int dim_, odd_, power_;
  std::vector<float> signs_;    // [dim], +1 or -1
  std::vector<float> hartley_;  // [odd, odd] / sqrt(dim), for odd > 1
};

}  // namespace kvasir
