// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The Viterbi search, written once over a vector of 16 integers that the compiler maps to the registers of each file's
// instruction set. Everything is an integer, so every instruction set finds the same codes. Included only by
// trellis-*.cpp; all functions are internal to the file.
#pragma once

#include <cstdint>

#include "vector/trellis.h"

namespace kvasir {

using Lanes = int32_t __attribute__((vector_size(64)));  // one sequence each

template <int Bits>
static inline void search_trellis(const uint8_t* level, const int32_t* x, int steps, int32_t* choices, uint8_t* codes) {
  // Squared differences are multiples of 16 (kTrellisScale makes x and levels multiples of 4), so the low four bits of
  // a cost carry which branch it came by: the smaller cost brings its branch along, ties go to the smaller branch.
  constexpr int32_t kBranchMask = 15;
  constexpr int kStates = 1 << (8 - Bits);  // what of a window the next one keeps
  constexpr int kBranches = 1 << Bits;
  constexpr int kTails = kStates / kBranches;
  constexpr int kFields = 32 / Bits;  // branches in one word of `choices`
  constexpr int kWords = kStates / kFields;
  constexpr int kRenormalise = 16;       // steps until sums might overflow
  constexpr int32_t kFarAway = 1 << 28;  // of the states that no window starts in

  int32_t scaled[256];
  for (int window = 0; window < 256; ++window) scaled[window] = (int32_t(level[window]) - 128) * kTrellisScale;
  Lanes cost[kStates], next[kStates];
  for (int state = 0; state < kStates; ++state) cost[state] = Lanes{} + (state == 0 ? 0 : kFarAway);
  for (int step = 0; step < steps; ++step) {
    if (step % kRenormalise == 0) {
      Lanes least = cost[0];
      for (int state = 1; state < kStates; ++state) least = cost[state] < least ? cost[state] : least;
      for (int state = 0; state < kStates; ++state) cost[state] -= least;
    }
    Lanes target;
    __builtin_memcpy(&target, x + step * kTrellisLanes, sizeof target);
    Lanes words[kWords] = {};
    for (int tail = 0; tail < kTails; ++tail) {
      Lanes from[kBranches];
      for (int branch = 0; branch < kBranches; ++branch) from[branch] = cost[tail * kBranches + branch] | branch;
      for (int code = 0; code < kBranches; ++code) {
        const int32_t* value = scaled + (code << (8 - Bits)) + tail * kBranches;
        Lanes difference = target - value[0];
        Lanes best = from[0] + difference * difference;
#pragma GCC unroll 16
        for (int branch = 1; branch < kBranches; ++branch) {
          difference = target - value[branch];
          const Lanes other = from[branch] + difference * difference;
          best = other < best ? other : best;
        }
        const int state = code * kTails + tail;
        next[state] = best & ~kBranchMask;
        words[state / kFields] |= (best & kBranchMask) << (Bits * (state % kFields));
      }
    }
    for (int state = 0; state < kStates; ++state) cost[state] = next[state];
    __builtin_memcpy(choices + step * kWords * kTrellisLanes, words, sizeof words);
  }

  for (int lane = 0; lane < kTrellisLanes; ++lane) {
    int state = 0;
    for (int other = 1; other < kStates; ++other)
      if (cost[other][lane] < cost[state][lane]) state = other;
    // Lane 4 v + i is sequence i of vector v.
    uint8_t* out = codes + (lane / kTrellisSequences) * steps * kTrellisSequences + lane % kTrellisSequences;
    for (int step = steps - 1; step >= 0; --step) {
      const int32_t word = choices[(step * kWords + state / kFields) * kTrellisLanes + lane];
      const int branch = int(uint32_t(word) >> (Bits * (state % kFields))) & (kBranches - 1);
      out[step * kTrellisSequences] = uint8_t(state / kTails);
      state = state % kTails * kBranches + branch;
    }
  }
}

[[maybe_unused]] static inline void encode_with_trellis(int bits, const uint8_t* level, const int32_t* x, int steps,
                                                        int32_t* scratch, uint8_t* codes) {
  if (bits == 2) return search_trellis<2>(level, x, steps, scratch, codes);
  search_trellis<4>(level, x, steps, scratch, codes);
}

}  // namespace kvasir
