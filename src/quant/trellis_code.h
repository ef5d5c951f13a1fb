// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Trellis-coded quantization for codes in vectors of 32 bytes (codec/page_layout.h): the same b bits a value, with a
// squared error 36 to 42 % below that of the best levels for one value alone (19 % at 1 bit). Each of the 32 bytes is a
// sequence of its own, whose steps are the vectors in order. A code doesn't name a level by itself; the window of the
// last codes does, so each value chooses among 2^b of many levels, and the choices before decide which. Sequences are
// circular: before the first step comes the last. (A tail-biting bitshift trellis, as in QTIP, arXiv 2406.11235.)
// Encoding finds the codes of a whole sequence with the least squared error (Viterbi, quant/trellis_coder.h); decoding
// looks at a window.
//
// What a window stands for is computed from tables of 16 bytes, since those are what a byte shuffle holds. The window
// is taken in groups of 4 / b codes (one code at 3 and 4 bits, two at 2, four at 1), the newest first, g0, g1, ...
//
//   hash  = g0 ^ mix[0][g1] ^ mix[1][g2] ...                 (the newest code of a group on top of its bits)
//   level = coarse[hash % 16] + fine[hash / 16],             value = (level - offset) * step
//
// Found by search: of random tables the best, then the best of random changes to one or two entries, each time with
// `coarse` and `fine` fitted by the generalised Lloyd algorithm (encode normal samples, solve for the least squared
// error, repeat), from some 30 to 100 starts. Free tables with a level for each window, trained once from quantiles in
// random order, ended at 1.28, 1.32 and 1.52 times 4^-b with windows of 8, 10 and 8 bits at 2, 3 and 4 bits; searched
// tables of those windows at 1.26, 1.27 and 1.56.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvasir {

inline constexpr int kTrellisMixes = 4;  // tables `mix` at most

struct TrellisCode {
  int bits = 0;         // b, 1..4
  int window_bits = 0;  // bits of the newest codes that a level depends on
  int hash_bits = 0;    // 4..7
  int mixes = 0;        // tables in `mix` that are used
  int offset = 0;       // level that stands for zero
  float step = 1.0f;    // for input of unit variance
  uint8_t mix[kTrellisMixes][16] = {};
  uint8_t coarse[16] = {}, fine[16] = {};

  int group_codes() const { return bits == 3 ? 1 : 4 / bits; }
  int windows() const { return 1 << window_bits; }
  int hash(int window) const;  // window: the newest code in the highest bits
  int level(int window) const { return coarse[hash(window) & 15] + fine[hash(window) >> 4]; }
  float value(int level) const { return float(level - offset) * step; }
};

// Tables `mix` in use by the codes below.
constexpr int trellis_mixes(int bits) {
  return bits == 1 ? 1 : 2;
}
// The codes that pages are written with; bits in 1..4.
const TrellisCode& trellis_code(int bits);
// A window of 15 bits at 3 bits, to see what length wins: 1.16 times 4^-b in sequences of 512 steps and 1.20 in those
// of 128, where 9 bits have 1.27 and 1.28, for 65 times the work. No kernel reads it.
const TrellisCode& long_trellis_code();

}  // namespace kvasir
