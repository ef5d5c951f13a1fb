// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed codes to levels, two vectors of 32 at a time.
#include "attention/kernels-avx2.h"
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"
#include "attention/packed_loops.h"

namespace kvasir::avx512 {

namespace {

struct LevelTable {
  __m512i part[4];  // 16 levels each, in every quarter
};

LevelTable load_table(const uint8_t* level, int bits) {
  alignas(64) uint8_t bytes[64] = {};
  for (int i = 0; i < 1 << bits; ++i) bytes[i] = level[i];
  LevelTable table;
  for (int i = 0; i < 4; ++i) {
    table.part[i] = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes + 16 * i)));
  }
  return table;
}

template <int Bits>
inline __m512i look_up(__m512i code, const LevelTable& table) {
  if constexpr (Bits <= 4) return _mm512_shuffle_epi8(table.part[0], code);
  // A shuffle reads the low 4 bits of a byte; bit 7, which would clear it, is never set in codes of 6 bits.
  const __mmask64 bit4 = _mm512_test_epi8_mask(code, _mm512_set1_epi8(16));
  const __m512i low = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table.part[0], code), bit4, table.part[1], code);
  if constexpr (Bits == 5) return low;
  const __mmask64 bit5 = _mm512_test_epi8_mask(code, _mm512_set1_epi8(32));
  const __m512i high = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table.part[2], code), bit4, table.part[3], code);
  return _mm512_mask_blend_epi8(bit5, low, high);
}

template <int Bits, bool Lookup>
void unpack_cells(const uint8_t* packed, const LevelTable& table, int cells, uint8_t* out) {
  const auto store = [&](auto pair) {
    constexpr int P = decltype(pair)::value;
    const __m512i code = load_code_pair<Bits, P>(packed);
    _mm512_storeu_si512(out + 2 * P * kVectorCodes, Lookup ? look_up<Bits>(code, table) : code);
  };
  for (int cell = 0; cell < cells; ++cell, packed += kVectorCodes * Bits, out += kCellCodes) {
    store(Constant<0>{});
    store(Constant<1>{});
    store(Constant<2>{});
    store(Constant<3>{});
  }
}

void unpack_bytes(const uint8_t* packed, const uint8_t* level, int cells, uint8_t* out) {
  constexpr int bytes = kVectorCodes * kCellVectors;
  for (int cell = 0; cell < cells; ++cell, packed += bytes, out += bytes) {
    for (int i = 0; i < bytes; i += 64) _mm512_storeu_si512(out + i, load_bytes(packed + i));
    if (level == nullptr) continue;
    for (int i = 0; i < bytes; ++i) out[i] = level[out[i]];
  }
}

}  // namespace

void unpack_levels(const SegmentView& segment, int block, uint8_t* out) {
  // 64 bytes at a time were no faster: the shuffles of a trellis are what takes time, and its neighbours straddle
  // halves.
  if (segment.trellis) return avx2::unpack_trellis(segment, block, out);
  unpack_block(segment, block, [&](auto bits, const uint8_t* packed, int cells) {
    constexpr int kBits = decltype(bits)::value;
    if constexpr (kBits == 8) {
      unpack_bytes(packed, segment.level, cells, out);
    } else if (segment.level) {
      unpack_cells<kBits, true>(packed, load_table(segment.level, kBits), cells, out);
    } else {
      unpack_cells<kBits, false>(packed, LevelTable{}, cells, out);
    }
  });
}

}  // namespace kvasir::avx512
