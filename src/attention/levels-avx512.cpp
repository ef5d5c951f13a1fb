// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed codes to levels, two vectors of 32 at a time: both lie in the same word of a plane, so the word goes to
// both halves, each is shifted by its own amount, masked and looked up.
#include "attention/kernels-avx2.h"
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"

namespace kvasir::avx512 {

namespace {

constexpr int kPairs = kCellVectors / 2;

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

// The fields of vectors 2 pair and 2 pair + 1 of a plane of W-bit fields, shifted left by `Up` bits.
template <int W, int Up>
inline __m512i plane_pair(const uint8_t* plane, int pair) {
  constexpr int per_word = 8 / W;
  const int first = 2 * pair;
  const __m512i word = _mm512_broadcast_i64x4(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(plane + first / per_word * kVectorCodes)));
  const int low = first % per_word * W;
  const __m512i shift = _mm512_inserti64x4(_mm512_set1_epi16(short(low)), _mm256_set1_epi16(short(low + W)), 1);
  // 16-bit shifts carry bits over from the neighbour byte; the mask drops them.
  const __m512i field = _mm512_and_si512(_mm512_srlv_epi16(word, shift), _mm512_set1_epi8(char((1 << W) - 1)));
  return Up == 0 ? field : _mm512_slli_epi16(field, Up);
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
  constexpr Planes planes = planes_of(Bits);
  for (int cell = 0; cell < cells; ++cell, packed += kVectorCodes * Bits, out += kCellLevels) {
#pragma GCC unroll 4
    for (int pair = 0; pair < kPairs; ++pair) {
      __m512i code = plane_pair<planes.width[0], 0>(packed, pair);
      if constexpr (planes.count == 2) {
        code = _mm512_or_si512(
            code, plane_pair<planes.width[1], planes.width[0]>(packed + kVectorCodes * planes.width[0], pair));
      }
      const __m512i level = Lookup ? look_up<Bits>(code, table) : code;
      _mm512_storeu_si512(out + 2 * pair * kVectorCodes, level);
    }
  }
}

template <int Bits>
void unpack_bits(const uint8_t* packed, const uint8_t* level, int cells, uint8_t* out) {
  if (level) {
    unpack_cells<Bits, true>(packed, load_table(level, Bits), cells, out);
  } else {
    unpack_cells<Bits, false>(packed, LevelTable{}, cells, out);
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
  const int cells = segment.count / kCellChannels, index = block * cells;
  const auto* packed = reinterpret_cast<const uint8_t*>(segment.codes) + ptrdiff_t(index) * kVectorCodes * segment.bits;
  switch (segment.bits) {
    case 1: return unpack_bits<1>(packed, segment.level, cells, out);
    case 2: return unpack_bits<2>(packed, segment.level, cells, out);
    case 3: return unpack_bits<3>(packed, segment.level, cells, out);
    case 4: return unpack_bits<4>(packed, segment.level, cells, out);
    case 5: return unpack_bits<5>(packed, segment.level, cells, out);
    case 6: return unpack_bits<6>(packed, segment.level, cells, out);
    default: return unpack_bytes(packed, segment.level, cells, out);
  }
}

}  // namespace kvasir::avx512
