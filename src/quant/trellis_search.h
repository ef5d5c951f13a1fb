// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The Viterbi search for 32 sequences at once, per instruction set. All arithmetic is in integers of 16 bits, so each
// of them finds the same codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvasir {

// A TrellisCode as the search reads it.
struct TrellisPlan {
  int bits, window_bits;  // window_bits >= 2 bits
  int hashes;             // <= kTrellisHashes
  // Differences beyond `reach` units count as it, costs beyond `far` as that: sums of the two fit 16 bits. (Constants
  // in effect, but compilers that know them make two instructions of each minimum.)
  int16_t reach, far;
  const int16_t* value;  // [hashes]: levels in the units of x, of either sign up to 16000
  const uint16_t* hash;  // [2^window_bits]: the window's hash times kTrellisLanes
};

inline constexpr int kTrellisLanes = 32;
inline constexpr int kTrellisHashes = 128;
inline constexpr int kTrellisReach = 127;  // units of a cost's root
inline constexpr int kTrellisFar = 32767 - kTrellisReach * kTrellisReach - 14;

// Choices are fields in words of 16 bits.
template <int Bits>
struct TrellisFields {
  static constexpr int kBranches = 1 << Bits;
  static constexpr int kBits = Bits == 3 ? 4 : Bits;
  static constexpr int kFields = 16 / kBits;
};

// States of the search: what of a window the next one keeps.
constexpr int trellis_states(int bits, int window_bits) {
  return 1 << (window_bits - bits);
}
// Words of choices in a step of one sequence. There are 16 states or more, so the last word is full.
constexpr int trellis_words(int bits, int window_bits) {
  return trellis_states(bits, window_bits) * (bits == 3 ? 4 : bits) / 16;
}

// x is [steps][2][32]: values within the range of plan.value, then what differences from them are multiplied by, over
// 2^16: costs are squares of the integer below that (values have half a unit added, so that it is the nearest).
//
// state [32]: that before the first and after the last step of each sequence, unless `open`: then both are free, each
// for itself. It becomes that before step `first`, back to which codes [steps][32] are written. cost is room for
// [2][states][32], choices for [steps][words][32]; x, cost, choices and state are 64-byte aligned.
using TrellisSearch = void (*)(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open,
                               uint16_t* state, int16_t* cost, uint16_t* choices, uint8_t* codes);

void search_trellis(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                    int16_t* cost, uint16_t* choices, uint8_t* codes);
namespace avx2 {
void search_trellis(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                    int16_t* cost, uint16_t* choices, uint8_t* codes);
}
namespace avx512 {
void search_trellis(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                    int16_t* cost, uint16_t* choices, uint8_t* codes);
}

}  // namespace kvasir
