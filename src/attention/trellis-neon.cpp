// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed trellis codes to levels, as trellis-avx2.cpp, where the steps are explained. The 32 sequences go in two
// passes of 16, so that the groups in reach stay in registers.
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"
#include "attention/packed_loops.h"

namespace kvasir::neon {

namespace {

// The group of codes that ends with vector V of a cell, the newest on top. `before` is the cell before it.
template <int Bits, int V>
inline uint8x16_t group(const uint8_t* cell, const uint8_t* before) {
  const auto word = [&](int i) { return vld1q_u8(cell + i * kVectorCodes); };
  if constexpr (Bits == 3) {
    const uint8x16_t low = move_field<2, V % 4 * 2, 0>(word(V / 4)), high = move_field<1, V, 2>(word(2));
    return vorrq_u8(low, high);
  } else {
    constexpr int per_word = 8 / Bits, older = 4 / Bits - 1;  // codes of the group before V
    constexpr int begin = (V % per_word - older) * Bits;      // of the group in V's word
    const uint8x16_t now = word(V / per_word);
    if constexpr (begin >= 0) {
      return move_field<4, begin, 0>(now);
    } else {
      const uint8x16_t last = V >= per_word ? word(V / per_word - 1) : vld1q_u8(before + (Bits - 1) * kVectorCodes);
      const uint8x16_t low = move_field<-begin, 8 + begin, 0>(last), high = move_field<4 + begin, 0, -begin>(now);
      return vorrq_u8(low, high);
    }
  }
}

template <int Mixes>
struct Tables {
  uint8x16_t mix[Mixes], coarse, fine;
};

// What earlier groups add to the hash: mix[m] of the groups (m + 1) Codes vectors ago, the newest first.
template <int Codes, int Mixes>
struct Mixed {
  uint8x16_t of[Mixes][Mixes * Codes];

  inline uint8x16_t next(const Tables<Mixes>& table, uint8x16_t group) {
    uint8x16_t hash = group;
#pragma GCC unroll 4
    for (int m = 0; m < Mixes; ++m) {
      hash = veorq_u8(hash, of[m][(m + 1) * Codes - 1]);
#pragma GCC unroll 8
      for (int i = (m + 1) * Codes - 1; i > 0; --i) of[m][i] = of[m][i - 1];
      of[m][0] = vqtbl1q_u8(table.mix[m], group);
    }
    return hash;
  }
};

template <int Bits, int Mixes>
void unpack_cells(const TrellisCode& code, const uint8_t* cell, const uint8_t* before, int cells, uint8_t* out) {
  constexpr int kCodes = Bits == 3 ? 1 : 4 / Bits;
  Tables<Mixes> table;
#pragma GCC unroll 4
  for (int m = 0; m < Mixes; ++m) table.mix[m] = vld1q_u8(code.mix[m]);
  table.coarse = vld1q_u8(code.coarse);
  table.fine = vld1q_u8(code.fine);
  Mixed<kCodes, Mixes> mixed;
#pragma GCC unroll 4
  for (int m = 0; m < Mixes; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < Mixes * kCodes; ++i) mixed.of[m][i] = vdupq_n_u8(0);
  }
  each_vector([&](auto v) {
    // Of the cell before, only the last groups are in reach; what came before them isn't.
    constexpr int V = decltype(v)::value;
    if constexpr (V >= kCellVectors - Mixes * kCodes) mixed.next(table, group<Bits, V>(before, before));
  });
  for (int i = 0; i < cells; ++i, cell += kVectorCodes * Bits, out += kCellCodes) {
    each_vector([&](auto v) {
      constexpr int V = decltype(v)::value;
      const uint8x16_t hash = mixed.next(table, group<Bits, V>(cell, before));
      const uint8x16_t coarse = vqtbl1q_u8(table.coarse, vandq_u8(hash, vdupq_n_u8(15)));
      vst1q_u8(out + V * kVectorCodes, vaddq_u8(coarse, vqtbl1q_u8(table.fine, vshrq_n_u8(hash, 4))));
    });
    before = cell;
  }
}

}  // namespace

void unpack_trellis(const SegmentView& segment, int block, uint8_t* out) {
  const int cells = segment.count / kCellChannels, index = block * cells;
  const int last = (index > 0 ? index : kBlocksPerPage * cells) - 1;  // the codes are a circle
  const auto* codes = reinterpret_cast<const uint8_t*>(segment.codes);
  const ptrdiff_t bytes = ptrdiff_t(kVectorCodes) * segment.bits;
  const TrellisCode& code = *segment.trellis;
  for (int first = 0; first < kVectorCodes; first += 16) {
    const uint8_t *cell = codes + index * bytes + first, *before = codes + last * bytes + first;
    switch (segment.bits) {
      case 1: unpack_cells<1, trellis_mixes(1)>(code, cell, before, cells, out + first); break;
      case 2: unpack_cells<2, trellis_mixes(2)>(code, cell, before, cells, out + first); break;
      case 3: unpack_cells<3, trellis_mixes(3)>(code, cell, before, cells, out + first); break;
      default: unpack_cells<4, trellis_mixes(4)>(code, cell, before, cells, out + first); break;
    }
  }
}

}  // namespace kvasir::neon
