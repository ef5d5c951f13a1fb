// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// 8 vectors x 4 channels a register. Without VNNI the byte product (vpmaddubsw) sums pairs in 16 bits and saturates, so
// the levels go in as absolute values and their signs onto the query's bytes: 2 * 127 * 127 fits.
#include <immintrin.h>

#include "vector/floats-avx2.h"
#include "vector/scan.h"
#include "vector/trellis_kernels.h"

namespace kvasir {
namespace {

template <int Mask>
inline __m256i field(__m256i bytes, int shift) {
  // 16-bit shifts carry bits over from the neighbouring byte; the mask takes them away.
  return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(Mask));
}

inline __m256i load(const uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// The codes of group `i` of a chunk for 8 vectors: half h of the block, 32 bytes from `lane` (0 or 32) on.
template <int Bits>
inline __m256i unpack(const uint8_t* chunk, int h, int i, int lane) {
  if constexpr (Bits == 1) return field<1>(load(chunk + lane), 4 * h + i);
  if constexpr (Bits == 2) return field<3>(load(chunk + 64 * h + lane), 2 * i);
  if constexpr (Bits == 3) {
    const __m256i high = field<1>(load(chunk + 128 + lane), 4 * h + i);
    return _mm256_or_si256(field<3>(load(chunk + 64 * h + lane), 2 * i), _mm256_slli_epi16(high, 2));
  }
  return field<15>(load(chunk + 128 * h + 64 * (i / 2) + lane), 4 * (i % 2));
}

inline __m256i add_products(__m256i sum, __m256i magnitude, __m256i level, __m256i query) {
  const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(query, level));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// One half of the block: 16 vectors.
template <int Bits, int Queries>
void half_dots(const CodeBlock& block, int h, const QueryBatch& batch, int from, int32_t* dots) {
  const __m128i level = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.level));
  const __m256i table = _mm256_broadcastsi128_si256(_mm_sub_epi8(level, _mm_set1_epi8(char(block.offset))));
  __m256i sum[2][Queries];
#pragma GCC unroll 4
  for (int q = 0; q < Queries; ++q) sum[0][q] = sum[1][q] = _mm256_setzero_si256();
  const uint8_t* chunk = block.codes;
  const int8_t* values = batch.values + from * kGroupChannels;
  const int stride = batch.count * kGroupChannels;
  for (int c = 0; c < block.channels / kChunkChannels; ++c, chunk += chunk_bytes(Bits)) {
#pragma GCC unroll 4
    for (int i = 0; i < kChunkGroups; ++i, values += stride) {
      const __m256i first = _mm256_shuffle_epi8(table, unpack<Bits>(chunk, h, i, 0));
      const __m256i second = _mm256_shuffle_epi8(table, unpack<Bits>(chunk, h, i, 32));
      const __m256i first_magnitude = _mm256_abs_epi8(first), second_magnitude = _mm256_abs_epi8(second);
#pragma GCC unroll 4
      for (int q = 0; q < Queries; ++q) {
        int group;
        __builtin_memcpy(&group, values + q * kGroupChannels, sizeof group);
        const __m256i query = _mm256_set1_epi32(group);
        sum[0][q] = add_products(sum[0][q], first_magnitude, first, query);
        sum[1][q] = add_products(sum[1][q], second_magnitude, second, query);
      }
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < Queries; ++q) {
    int32_t* out = dots + (from + q) * kBlockVectors + 16 * h;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sum[0][q]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), sum[1][q]);
  }
}

template <int Bits>
void dots_with(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  for (int h = 0; h < 2; ++h) {
    int from = 0;
    for (; from + 4 <= batch.count; from += 4) half_dots<Bits, 4>(block, h, batch, from, dots);
    if (batch.count - from >= 2) {
      half_dots<Bits, 2>(block, h, batch, from, dots);
      from += 2;
    }
    if (from < batch.count) half_dots<Bits, 1>(block, h, batch, from, dots);
  }
}

void block_dots(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  if (block.trellis) return avx2::trellis_dots(block, batch, dots);
  switch (block.bits) {
    case 1: return dots_with<1>(block, batch, dots);
    case 2: return dots_with<2>(block, batch, dots);
    case 3: return dots_with<3>(block, batch, dots);
    default: return dots_with<4>(block, batch, dots);
  }
}

}  // namespace

const ScanKernels& avx2_scan() {
  static const ScanKernels kernels = {ScanLevel::avx2, block_dots,    avx2::encode,  avx2::encode_trellis,
                                      avx2::dot,       avx2::dot_f16, avx2::dot_tile};
  return kernels;
}

}  // namespace kvasir
