// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// As trellis-avx2.cpp, two vectors at a time: vector 2 p of a cell in the low half of pair p, 2 p + 1 in the high half.
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"

namespace kvasir::avx512 {

namespace {

constexpr int kPairs = kCellVectors / 2;

inline __m512i load_word(const uint8_t* word) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(word)));
}
// A byte for each half.
inline __m512i halves(int low, int high) {
  return _mm512_inserti64x4(_mm512_set1_epi8(char(low)), _mm256_set1_epi8(char(high)), 1);
}
// Each half shifted by its own amount: to the right, or to the left where both are negative or zero.
template <int Low, int High>
inline __m512i shift(__m512i word) {
  constexpr int by_low = Low < 0 ? -Low : Low, by_high = Low < 0 ? -High : High;
  const __m512i by = _mm512_inserti64x4(_mm512_set1_epi16(by_low), _mm256_set1_epi16(by_high), 1);
  return Low < 0 ? _mm512_sllv_epi16(word, by) : _mm512_srlv_epi16(word, by);
}

// The groups of codes that end with the vectors of pair P of a cell, the newest on top. `before` is the cell before it.
template <int Bits, int P>
inline __m512i groups(const uint8_t* cell, const uint8_t* before) {
  const auto word = [&](int i) { return load_word(cell + i * kVectorCodes); };
  constexpr int V = 2 * P;
  if constexpr (Bits == 3) {
    const __m512i low = _mm512_and_si512(shift<V % 4 * 2, V % 4 * 2 + 2>(word(V / 4)), _mm512_set1_epi8(3));
    return _mm512_or_si512(low, _mm512_and_si512(shift<V - 2, V - 1>(word(2)), _mm512_set1_epi8(4)));
  } else {
    constexpr int per_word = 8 / Bits, older = 4 / Bits - 1;  // codes of the group before V
    constexpr int begin = (V % per_word - older) * Bits;      // of the first group in V's word; the second one's:
    constexpr int second = begin + Bits;
    const __m512i now = shift<begin, second>(word(V / per_word)), nibble = _mm512_set1_epi8(15);
    if constexpr (begin >= 0) {
      return _mm512_and_si512(now, nibble);
    } else {
      const __m512i last = V >= per_word ? word(V / per_word - 1) : load_word(before + (Bits - 1) * kVectorCodes);
      const __m512i then = shift<8 + begin, 8 + second>(last);
      const __m512i from_last = halves((1 << -begin) - 1, (1 << -second) - 1);
      return _mm512_and_si512(_mm512_ternarylogic_epi64(from_last, then, now, 0xca), nibble);
    }
  }
}

template <int Mixes>
struct Tables {
  __m512i mix[Mixes], coarse, fine;
};

inline __m512i broadcast(const uint8_t* table) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// mix[m] of earlier pairs, the newest first.
template <int Codes, int Mixes>
struct Mixed {
  static constexpr int kKept = (Mixes * Codes + 1) / 2;
  __m512i of[Mixes][kKept];

  inline __m512i next(const Tables<Mixes>& table, __m512i group) {
    __m512i hash = group;
#pragma GCC unroll 4
    for (int m = 0; m < Mixes; ++m) {
      const __m512i now = _mm512_shuffle_epi8(table.mix[m], group);
      const int back = (m + 1) * Codes;  // vectors
      const __m512i older = of[m][(back + 1) / 2 - 1];
      // An odd number of vectors ago is the high half of one pair and the low half of the next.
      const __m512i newer = back == 1 ? now : of[m][back / 2 - (back > 1)];
      hash = _mm512_xor_si512(hash, back % 2 == 0 ? older : _mm512_alignr_epi64(newer, older, 4));
#pragma GCC unroll 8
      for (int i = kKept - 1; i > 0; --i) of[m][i] = of[m][i - 1];
      of[m][0] = now;
    }
    return hash;
  }
};

template <int Bits, int Mixes>
void unpack_cells(const TrellisCode& code, const uint8_t* cell, const uint8_t* before, int cells, uint8_t* out,
                  size_t stride) {
  constexpr int kCodes = Bits == 3 ? 1 : 4 / Bits;
  Tables<Mixes> table;
#pragma GCC unroll 4
  for (int m = 0; m < Mixes; ++m) table.mix[m] = broadcast(code.mix[m]);
  table.coarse = broadcast(code.coarse);
  table.fine = broadcast(code.fine);
  Mixed<kCodes, Mixes> mixed;
  const auto each = [&]<int P>(const uint8_t* at, const uint8_t* last, uint8_t* to) {
    const __m512i hash = mixed.next(table, groups<Bits, P>(at, last));
    if (to == nullptr) return;
    // A shuffle reads the low 4 bits of a byte; bit 7, which would clear it, is never set in hashes of up to 7 bits.
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(hash, 4), _mm512_set1_epi8(15));
    const __m512i level =
        _mm512_add_epi8(_mm512_shuffle_epi8(table.coarse, hash), _mm512_shuffle_epi8(table.fine, high));
    _mm512_storeu_si512(to + 2 * P * kVectorCodes, level);
  };
  const auto all = [&](const uint8_t* at, const uint8_t* last, uint8_t* to) {
    each.template operator()<0>(at, last, to);
    each.template operator()<1>(at, last, to);
    each.template operator()<2>(at, last, to);
    each.template operator()<3>(at, last, to);
  };
#pragma GCC unroll 4
  for (int m = 0; m < Mixes; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < Mixed<kCodes, Mixes>::kKept; ++i) mixed.of[m][i] = _mm512_setzero_si512();
  }
  // No window reaches back farther than a cell: what this makes of the vectors before `before` is forgotten.
  all(before, before, nullptr);
  for (int i = 0; i < cells; ++i, cell += kVectorCodes * Bits, out += stride) {
    all(cell, before, out);
    before = cell;
  }
}

}  // namespace

void unpack_trellis(const SegmentView& segment, int block, int first_cell, int cells, uint8_t* out, size_t stride) {
  const int block_cells = segment.count / kCellChannels, index = block * block_cells + first_cell;
  const int last = (index > 0 ? index : kBlocksPerPage * block_cells) - 1;  // the codes are a circle
  const auto* codes = reinterpret_cast<const uint8_t*>(segment.codes);
  const ptrdiff_t bytes = ptrdiff_t(kVectorCodes) * segment.bits;
  const uint8_t *cell = codes + index * bytes, *before = codes + last * bytes;
  const TrellisCode& code = *segment.trellis;
  switch (segment.bits * 4 + code.mixes) {
    case 1 * 4 + 1: return unpack_cells<1, 1>(code, cell, before, cells, out, stride);
    case 2 * 4 + 1: return unpack_cells<2, 1>(code, cell, before, cells, out, stride);
    case 2 * 4 + 2: return unpack_cells<2, 2>(code, cell, before, cells, out, stride);
    case 3 * 4 + 2: return unpack_cells<3, 2>(code, cell, before, cells, out, stride);
    case 3 * 4 + 3: return unpack_cells<3, 3>(code, cell, before, cells, out, stride);
    case 4 * 4 + 1: return unpack_cells<4, 1>(code, cell, before, cells, out, stride);
    default: return unpack_cells<4, 2>(code, cell, before, cells, out, stride);
  }
}

}  // namespace kvasir::avx512
