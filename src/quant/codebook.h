// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scalar codebooks on an 8-bit grid. A code is an index into `level`; the value it stands for is
//
//   (level[code] - offset) * step        (times the stored scale, plus the stored zero point)
//
// Levels are bytes on purpose: kernels look them up with a byte shuffle and multiply in integers, and encoder,
// reference, SIMD and CUDA agree on them to the last bit. Rounding the 16 Lloyd-Max levels to this grid costs less
// than 0.3 % of their squared error (test_quant proves it against the exact integral).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvasir {

struct Codebook {
  int bits = 0;
  int offset = 0;  // level that stands for zero
  float step = 1.0f;
  bool identity = false;             // level[code] == code: no lookup needed
  std::array<uint8_t, 256> level{};  // 2^bits entries, ascending
  std::vector<float> edges;          // 2^bits - 1 decision thresholds between values, ascending

  int levels() const { return 1 << bits; }
  float value(int code) const { return float(int(level[size_t(code)]) - offset) * step; }
  int code(float x) const;      // nearest level
  double gaussian_mse() const;  // E (x - value(code(x)))^2 for x ~ N(0,1), by exact integration
};

// Lloyd-Max levels for N(0,1) (Max 1960; TurboQuant arXiv 2504.19874 eq. 4 in the limit of large d), rounded to the
// grid whose step loses least. bits in 1..6.
const Codebook& lloyd_max_codebook(int bits);
// The same for sqrt(d) times one coordinate of a random unit vector of d = `dim` >= 4 channels, whose density is
// (1 - u^2/d)^((d-3)/2) / Z (arXiv 2504.19874, Lemma 1).
const Codebook& lloyd_max_codebook(int bits, int dim);

// The exact (unrounded) levels, ascending, and their squared error under the density they were made for: N(0,1), or
// the sphere's if `dim` is given. For tests and `kvasir distort`.
struct LloydMaxExact {
  std::vector<double> levels;  // all 2^bits, ascending
  double mse = 0.0;
};
LloydMaxExact lloyd_max_exact(int bits, int dim = 0);

// value = code: 2^bits equidistant levels for asymmetric (scale and zero) quantization. bits in 1..8.
const Codebook& uniform_codebook(int bits);

// value = code - 2^(bits-1): symmetric, codes 1 .. 2^bits - 1 used. bits in 2..8.
const Codebook& symmetric_codebook(int bits);

// One bit: -1 and +1.
const Codebook& sign_codebook();

}  // namespace kvasir
