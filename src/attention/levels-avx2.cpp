// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed codes to levels: one load, shift and mask a vector, then a byte shuffle per 16 levels of the codebook.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"

namespace kvasir::avx2 {

namespace {

struct LevelTable {
  __m256i part[4];  // 16 levels each, in both halves
};

LevelTable load_table(const uint8_t* level, int bits) {
  uint8_t bytes[64] = {};
  std::memcpy(bytes, level, size_t(1) << bits);
  LevelTable table;
  for (int i = 0; i < 4; ++i) {
    table.part[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * i)));
  }
  return table;
}

// The 8 vectors of one plane of W-bit fields.
template <int W>
inline void expand_plane(const uint8_t* plane, __m256i (&field)[kCellVectors]) {
  constexpr int per_word = 8 / W;
  const __m256i mask = _mm256_set1_epi8(char((1 << W) - 1));
#pragma GCC unroll 8
  for (int word = 0; word < W; ++word) {
    const __m256i x = load_bytes(plane + word * kVectorCodes);
#pragma GCC unroll 8
    for (int i = 0; i < per_word; ++i) {
      field[word * per_word + i] = W == 8 ? x : _mm256_and_si256(_mm256_srli_epi16(x, i * W), mask);
    }
  }
}

template <int Bits>
inline __m256i look_up(__m256i code, const LevelTable& table) {
  if constexpr (Bits <= 4) return _mm256_shuffle_epi8(table.part[0], code);
  // A blend looks at bit 7 of each byte alone, so what the 16-bit shifts carry over from the neighbour is harmless.
  const __m256i bit4 = _mm256_slli_epi16(code, 3);
  const __m256i low =
      _mm256_blendv_epi8(_mm256_shuffle_epi8(table.part[0], code), _mm256_shuffle_epi8(table.part[1], code), bit4);
  if constexpr (Bits == 5) return low;
  const __m256i high =
      _mm256_blendv_epi8(_mm256_shuffle_epi8(table.part[2], code), _mm256_shuffle_epi8(table.part[3], code), bit4);
  return _mm256_blendv_epi8(low, high, _mm256_slli_epi16(code, 2));
}

template <int Bits, bool Lookup>
void unpack_cells(const uint8_t* packed, const LevelTable& table, int cells, uint8_t* out) {
  constexpr Planes planes = planes_of(Bits);
  for (int cell = 0; cell < cells; ++cell, packed += kVectorCodes * Bits, out += kCellLevels) {
    __m256i code[kCellVectors];
    expand_plane<planes.width[0]>(packed, code);
    if constexpr (planes.count == 2) {
      __m256i high[kCellVectors];
      expand_plane<planes.width[1]>(packed + kVectorCodes * planes.width[0], high);
#pragma GCC unroll 8
      for (int v = 0; v < kCellVectors; ++v) {
        code[v] = _mm256_or_si256(code[v], _mm256_slli_epi16(high[v], planes.width[0]));
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kCellVectors; ++v) {
      const __m256i level = Lookup ? look_up<Bits>(code[v], table) : code[v];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + v * kVectorCodes), level);
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

// 8-bit codes need no unpacking, and every 8-bit codebook of quant/codebook.h is its own level; a table is looked up
// byte by byte.
void unpack_bytes(const uint8_t* packed, const uint8_t* level, int cells, uint8_t* out) {
  constexpr int bytes = kVectorCodes * kCellVectors;
  for (int cell = 0; cell < cells; ++cell, packed += bytes, out += bytes) {
    std::memcpy(out, packed, bytes);
    if (level == nullptr) continue;
    for (int i = 0; i < bytes; ++i) out[i] = level[out[i]];
  }
}

}  // namespace

void unpack_levels(const SegmentView& segment, int block, uint8_t* out) {
  if (segment.trellis) return unpack_trellis(segment, block, out);
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

}  // namespace kvasir::avx2
