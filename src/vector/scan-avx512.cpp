// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// 16 vectors x 4 channels a register: codes to levels by one byte shuffle, then vpdpbusd multiplies the unsigned levels
// by the query's signed bytes, broadcast, and sums the 4 channels of each vector in its own 32-bit lane. The offset of
// the levels is taken out by where the sums start.
#include <immintrin.h>

#include "vector/scan.h"
#include "vector/trellis_kernels.h"

namespace kvasir {
namespace {

template <int Mask>
inline __m512i field(__m512i bytes, int shift) {
  // 16-bit shifts carry bits over from the neighbouring byte; the mask takes them away.
  return _mm512_and_si512(_mm512_srli_epi16(bytes, unsigned(shift)), _mm512_set1_epi8(Mask));
}

inline __m512i load(const uint8_t* bytes) {
  return _mm512_loadu_si512(bytes);
}

// The codes of group `i` of a chunk, both halves of the block.
template <int Bits>
inline void unpack(const uint8_t* chunk, int i, __m512i& first, __m512i& second) {
  if constexpr (Bits == 1) {
    const __m512i bytes = load(chunk);
    first = field<1>(bytes, i);
    second = field<1>(bytes, 4 + i);
  } else if constexpr (Bits == 2) {
    first = field<3>(load(chunk), 2 * i);
    second = field<3>(load(chunk + 64), 2 * i);
  } else if constexpr (Bits == 3) {
    const __m512i high = load(chunk + 128);
    first = _mm512_or_si512(field<3>(load(chunk), 2 * i), _mm512_slli_epi16(field<1>(high, i), 2));
    second = _mm512_or_si512(field<3>(load(chunk + 64), 2 * i), _mm512_slli_epi16(field<1>(high, 4 + i), 2));
  } else {
    first = field<15>(load(chunk + 64 * (i / 2)), 4 * (i % 2));
    second = field<15>(load(chunk + 128 + 64 * (i / 2)), 4 * (i % 2));
  }
}

template <int Bits, int Queries>
void dots_of(const CodeBlock& block, const QueryBatch& batch, int from, int32_t* dots) {
  // The form with a mask: GCC 12 warns that its plain broadcast starts from an uninitialised register.
  const __m512i table =
      _mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.level)));
  __m512i sum[2][Queries];
#pragma GCC unroll 8
  for (int q = 0; q < Queries; ++q) sum[0][q] = sum[1][q] = _mm512_set1_epi32(-block.offset * batch.sum[from + q]);
  const uint8_t* chunk = block.codes;
  const int8_t* values = batch.values + from * kGroupChannels;
  const int stride = batch.count * kGroupChannels;
  for (int c = 0; c < block.channels / kChunkChannels; ++c, chunk += chunk_bytes(Bits)) {
#pragma GCC unroll 4
    for (int i = 0; i < kChunkGroups; ++i, values += stride) {
      __m512i first, second;
      unpack<Bits>(chunk, i, first, second);
      first = _mm512_shuffle_epi8(table, first);
      second = _mm512_shuffle_epi8(table, second);
#pragma GCC unroll 8
      for (int q = 0; q < Queries; ++q) {
        int group;
        __builtin_memcpy(&group, values + q * kGroupChannels, sizeof group);
        const __m512i query = _mm512_set1_epi32(group);
        sum[0][q] = _mm512_dpbusd_epi32(sum[0][q], first, query);
        sum[1][q] = _mm512_dpbusd_epi32(sum[1][q], second, query);
      }
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Queries; ++q) {
    int32_t* out = dots + (from + q) * kBlockVectors;
    _mm512_storeu_si512(out, sum[0][q]);
    _mm512_storeu_si512(out + 16, sum[1][q]);
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

template <bool Vbmi>
void block_dots(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  if (block.trellis) return Vbmi ? avx512::trellis_dots(block, batch, dots) : avx2::trellis_dots(block, batch, dots);
  switch (block.bits) {
    case 1: return dots_with<1>(block, batch, dots);
    case 2: return dots_with<2>(block, batch, dots);
    case 3: return dots_with<3>(block, batch, dots);
    default: return dots_with<4>(block, batch, dots);
  }
}

}  // namespace

const ScanKernels& avx512_scan() {
  static const ScanKernels kernels = [] {
    ScanKernels table = avx2_scan();
    table.level = ScanLevel::avx512;
    table.block_dots = block_dots<false>;
    if (__builtin_cpu_supports("avx512vbmi")) {
      table.block_dots = block_dots<true>;
      table.encode_trellis = avx512::encode_trellis;
    }
    return table;
  }();
  return kernels;
}

}  // namespace kvasir
