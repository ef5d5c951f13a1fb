// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From packed codes to levels: one load, shift and mask a vector, then a byte shuffle per 16 levels of the codebook.
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"
#include "attention/packed_loops.h"

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
  for (int cell = 0; cell < cells; ++cell, packed += kVectorCodes * Bits, out += kCellCodes) {
    each_vector([&](auto v) {
      constexpr int V = decltype(v)::value;
      const __m256i code = load_codes<Bits, V>(packed);
      const __m256i level = Lookup ? look_up<Bits>(code, table) : code;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + V * kVectorCodes), level);
    });
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

}  // namespace kvasir::avx2
