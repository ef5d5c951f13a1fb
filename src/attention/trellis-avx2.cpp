// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed trellis codes to levels (quant/trellis_code.h): as levels-avx2.cpp, with groups of codes in place of
// codes and three to five byte shuffles a vector in place of one.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"
#include "attention/packed_loops.h"

namespace kvasir::avx2 {

namespace {

inline __m256i field(__m256i word, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(word, shift), _mm256_set1_epi8(char(mask)));
}

// The group of codes that ends with vector V of a cell, the newest on top. `before` is the cell before it.
template <int Bits, int V>
inline __m256i group(const uint8_t* cell, const uint8_t* before) {
  const auto word = [&](int i) { return load_bytes(cell + i * kVectorCodes); };
  if constexpr (Bits == 3) {
    const __m256i low = field(word(V / 4), V % 4 * 2, 3);
    const __m256i high = V < 2 ? _mm256_slli_epi16(word(2), V < 2 ? 2 - V : 0) : _mm256_srli_epi16(word(2), V - 2);
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(4)));
  } else {
    constexpr int per_word = 8 / Bits, older = 4 / Bits - 1;  // codes of the group before V
    constexpr int begin = (V % per_word - older) * Bits;      // of the group in V's word
    const __m256i now = word(V / per_word);
    if constexpr (begin >= 0) {
      return field(now, begin, 15);
    } else {
      const __m256i last = V >= per_word ? word(V / per_word - 1) : load_bytes(before + (Bits - 1) * kVectorCodes);
      constexpr int from_last = (1 << -begin) - 1;
      return _mm256_or_si256(field(last, 8 + begin, from_last),
                             _mm256_and_si256(_mm256_slli_epi16(now, -begin), _mm256_set1_epi8(15 - from_last)));
    }
  }
}

template <int Mixes>
struct Tables {
  __m256i mix[Mixes], coarse, fine;
};

inline __m256i broadcast(const uint8_t* table) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

// What earlier groups add to the hash: mix[m] of the groups (m + 1) Codes vectors ago, the newest first.
template <int Codes, int Mixes>
struct Mixed {
  __m256i of[Mixes][Mixes * Codes];

  inline __m256i next(const Tables<Mixes>& table, __m256i group) {
    __m256i hash = group;
#pragma GCC unroll 4
    for (int m = 0; m < Mixes; ++m) {
      hash = _mm256_xor_si256(hash, of[m][(m + 1) * Codes - 1]);
#pragma GCC unroll 8
      for (int i = (m + 1) * Codes - 1; i > 0; --i) of[m][i] = of[m][i - 1];
      of[m][0] = _mm256_shuffle_epi8(table.mix[m], group);
    }
    return hash;
  }
};

template <int Bits, int Mixes>
void unpack_cells(const TrellisCode& code, const uint8_t* cell, const uint8_t* before, int cells, uint8_t* out) {
  constexpr int kCodes = Bits == 3 ? 1 : 4 / Bits;
  Tables<Mixes> table;
#pragma GCC unroll 4
  for (int m = 0; m < Mixes; ++m) table.mix[m] = broadcast(code.mix[m]);
  table.coarse = broadcast(code.coarse);
  table.fine = broadcast(code.fine);
  Mixed<kCodes, Mixes> mixed;
#pragma GCC unroll 4
  for (int m = 0; m < Mixes; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < Mixes * kCodes; ++i) mixed.of[m][i] = _mm256_setzero_si256();
  }
  each_vector([&](auto v) {
    // Of the cell before, only the last groups are in reach; what came before them isn't.
    constexpr int V = decltype(v)::value;
    if constexpr (V >= kCellVectors - Mixes * kCodes) mixed.next(table, group<Bits, V>(before, before));
  });
  for (int i = 0; i < cells; ++i, cell += kVectorCodes * Bits, out += kCellCodes) {
    each_vector([&](auto v) {
      constexpr int V = decltype(v)::value;
      const __m256i hash = mixed.next(table, group<Bits, V>(cell, before));
      // A shuffle reads the low 4 bits of a byte; bit 7, which would clear it, is never set in hashes of up to 7 bits.
      const __m256i level =
          _mm256_add_epi8(_mm256_shuffle_epi8(table.coarse, hash), _mm256_shuffle_epi8(table.fine, field(hash, 4, 15)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + V * kVectorCodes), level);
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
  const uint8_t *cell = codes + index * bytes, *before = codes + last * bytes;
  const TrellisCode& code = *segment.trellis;
  switch (segment.bits) {
    case 1: return unpack_cells<1, trellis_mixes(1)>(code, cell, before, cells, out);
    case 2: return unpack_cells<2, trellis_mixes(2)>(code, cell, before, cells, out);
    case 3: return unpack_cells<3, trellis_mixes(3)>(code, cell, before, cells, out);
    default: return unpack_cells<4, trellis_mixes(4)>(code, cell, before, cells, out);
  }
}

}  // namespace kvasir::avx2
