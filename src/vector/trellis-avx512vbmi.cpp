// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// As scan-avx512.cpp, with windows in place of codes: shifts of two neighbouring bytes of a lane, then a table of 256
// levels in four registers (vpermi2b, from VBMI).
#include <immintrin.h>

#include "vector/trellis_kernels.h"
#include "vector/trellis_search.h"

namespace kvasir::avx512 {
namespace {

inline __m512i load(const uint8_t* bytes) {
  return _mm512_loadu_si512(bytes);
}

struct LevelTable {
  __m512i part[4];
};

inline __m512i look_up(const LevelTable& table, __m512i window) {
  const __m512i low = _mm512_permutex2var_epi8(table.part[0], window, table.part[1]);
  const __m512i high = _mm512_permutex2var_epi8(table.part[2], window, table.part[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(window), low, high);
}

// Of each byte the window that ends with its low `Used` bits: those on top, the rest from the byte before.
template <int Used>
inline __m512i window(__m512i before, __m512i bytes) {
  if constexpr (Used == 8) {
    return bytes;
  } else {
    const __m512i now = _mm512_slli_epi16(bytes, 8 - Used), then = _mm512_srli_epi16(before, Used);
    const __m512i from_now = _mm512_set1_epi8(char(0xff << (8 - Used)));
    return _mm512_ternarylogic_epi64(from_now, now, then, 0xca);  // from_now ? now : then
  }
}

template <int Queries>
struct Sums {
  __m512i sum[2][Queries];

  inline void add(const int8_t* values, __m512i first, __m512i second) {
#pragma GCC unroll 8
    for (int q = 0; q < Queries; ++q) {
      int group;
      __builtin_memcpy(&group, values + q * kGroupChannels, sizeof group);
      const __m512i query = _mm512_set1_epi32(group);
      sum[0][q] = _mm512_dpbusd_epi32(sum[0][q], first, query);
      sum[1][q] = _mm512_dpbusd_epi32(sum[1][q], second, query);
    }
  }
};

template <int Used, int Queries>
inline void add_group(const LevelTable& table, const __m512i* before, const __m512i* bytes, const int8_t* values,
                      Sums<Queries>& sums) {
  sums.add(values, look_up(table, window<Used>(before[0], bytes[0])),
           look_up(table, window<Used>(before[1], bytes[1])));
}

template <int Bits, int Queries>
void dots_of(const CodeBlock& block, const QueryBatch& batch, int from, int32_t* dots) {
  LevelTable table;
  for (int i = 0; i < 4; ++i) table.part[i] = load(block.level + 64 * i);
  Sums<Queries> sums;
#pragma GCC unroll 8
  for (int q = 0; q < Queries; ++q)
    sums.sum[0][q] = sums.sum[1][q] = _mm512_set1_epi32(-block.offset * batch.sum[from + q]);
  const uint8_t* chunk = block.codes;
  const int8_t* values = batch.values + from * kGroupChannels;
  const int stride = batch.count * kGroupChannels;
  __m512i before[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  for (int c = 0; c < block.channels / kChunkChannels; ++c, chunk += chunk_bytes(Bits)) {
    if constexpr (Bits == 2) {
      const __m512i bytes[2] = {load(chunk), load(chunk + 64)};
      add_group<2>(table, before, bytes, values, sums);
      add_group<4>(table, before, bytes, values + stride, sums);
      add_group<6>(table, before, bytes, values + 2 * stride, sums);
      add_group<8>(table, before, bytes, values + 3 * stride, sums);
      before[0] = bytes[0];
      before[1] = bytes[1];
    } else {
#pragma GCC unroll 2
      for (int pair = 0; pair < 2; ++pair) {
        const __m512i bytes[2] = {load(chunk + 64 * pair), load(chunk + 128 + 64 * pair)};
        add_group<4>(table, before, bytes, values + 2 * pair * stride, sums);
        add_group<8>(table, before, bytes, values + (2 * pair + 1) * stride, sums);
        before[0] = bytes[0];
        before[1] = bytes[1];
      }
    }
    values += kChunkGroups * stride;
  }
#pragma GCC unroll 8
  for (int q = 0; q < Queries; ++q) {
    int32_t* out = dots + (from + q) * kBlockVectors;
    _mm512_storeu_si512(out, sums.sum[0][q]);
    _mm512_storeu_si512(out + 16, sums.sum[1][q]);
  }
}

template <int Bits>
void dots_with(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  int from = 0;
  for (; from + 8 <= batch.count; from += 8) dots_of<Bits, 8>(block, batch, from, dots);
  if (batch.count - from >= 4) {
    dots_of<Bits, 4>(block, batch, from, dots);
    from += 4;
  }
  if (batch.count - from >= 2) {
    dots_of<Bits, 2>(block, batch, from, dots);
    from += 2;
  }
  if (from < batch.count) dots_of<Bits, 1>(block, batch, from, dots);
}

}  // namespace

void trellis_dots(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  if (block.bits == 2) return dots_with<2>(block, batch, dots);
  dots_with<4>(block, batch, dots);
}

void encode_trellis(int bits, const uint8_t* level, const int32_t* x, int steps, int32_t* scratch, uint8_t* codes) {
  encode_with_trellis(bits, level, x, steps, scratch, codes);
}

}  // namespace kvasir::avx512
