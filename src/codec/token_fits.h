// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the encoder does to the values of a page, 64 tokens at once. Values lie in columns, [channels][64]
// (transform/page_columns.h), so that a machine vector holds tokens and each token's sums run over the channels in
// their order: the same numbers to the last bit on every instruction set.
#pragma once

#include <cstdint>
#include <vector>

#include "transform/page_columns.h"

namespace kvasir {

// A codebook as plain arrays (quant/codebook.h).
struct LevelTable {
  int edges;           // 2^bits - 1
  const float* edge;   // [edges], ascending
  const float* value;  // [edges + 1]
};

// Codes as integers next to (y - zero) * inverse, from `least` to `most`, plus `offset`.
struct LevelRange {
  float least, most;
  int offset;
};

// One instruction set's. `energy`, `cross`, `power`, `low`, `high`, `zero` and `inverse` are [64], codes and levels
// [channels][64].
struct TokenFits {
  // <y, y>
  void (*energies)(const float* y, int channels, double* energy);
  // Codes of the levels nearest to y * inverse, and <c, y> and <c, c> of the levels c. A value of NaN gets code 0.
  void (*nearest_levels)(const LevelTable& table, const float* inverse, const float* y, int channels, uint8_t* codes,
                         double* cross, double* power);
  // <c, y> and <c, c> of c = levels - offset.
  void (*level_sums)(const uint8_t* levels, int offset, const float* y, int channels, double* cross, double* power);
  void (*extremes)(const float* y, int channels, float* low, float* high);
  void (*round_levels)(const LevelRange& range, const float* zero, const float* inverse, const float* y, int channels,
                       uint8_t* codes);
  // Clips each token's values to its `rank` largest magnitude (1: the largest itself). largest is room for [rank][64].
  void (*clip)(int rank, float* y, int channels, float* largest);
  // The sum over the 64 tokens: those of remainder 0, 1, ... 7 by themselves, then pairwise.
  void (*channel_sums)(const float* y, int channels, double* sum);
};

// The fastest that this processor runs.
const TokenFits& token_fits();
// All that it runs, the plain one first.
std::vector<const TokenFits*> all_token_fits();

#ifdef KVASIR_X86
namespace avx2 {
const TokenFits& token_fits();
}
namespace avx512 {
const TokenFits& token_fits();
}
#endif

}  // namespace kvasir
