// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// As scan-avx2.cpp, with windows in place of codes. A table of 256 levels is 16 byte shuffles, each of which writes
// zero where the window's high half isn't its own; that makes unpacking dear, so 8 queries share it (one register of
// vectors at a time).
#include <immintrin.h>

#include "vector/trellis_kernels.h"
#include "vector/trellis_search.h"

namespace kvasir::avx2 {
namespace {

inline __m256i load(const void* bytes) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(bytes));
}

struct LevelTable {
  __m256i part[16];  // 16 signed levels each, in both halves
};

inline __m256i look_up(const LevelTable& table, __m256i window) {
  __m256i level = _mm256_setzero_si256();
#pragma GCC unroll 16
  for (int part = 0; part < 16; ++part) {
    // 0x70 .. 0x7f for windows of this part, 0x80 and more for all others: a shuffle makes zero of those.
    const __m256i own = _mm256_xor_si256(window, _mm256_set1_epi8(char(part << 4)));
    const __m256i index = _mm256_adds_epu8(own, _mm256_set1_epi8(0x70));
    level = _mm256_or_si256(level, _mm256_shuffle_epi8(table.part[part], index));
  }
  return level;
}

// Of each byte the window that ends with its low `used` bits: those on top, the rest from the byte before.
inline __m256i window(__m256i before, __m256i bytes, int used) {
  if (used == 8) return bytes;
  const __m256i from_now = _mm256_set1_epi8(char(0xff << (8 - used)));
  const __m256i now = _mm256_and_si256(from_now, _mm256_slli_epi16(bytes, 8 - used));
  return _mm256_or_si256(now, _mm256_andnot_si256(from_now, _mm256_srli_epi16(before, used)));
}

inline __m256i add_products(__m256i sum, __m256i magnitude, __m256i level, __m256i query) {
  const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(query, level));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// 8 vectors: half h of the block, 32 bytes from `lane` (0 or 32) on.
template <int Bits, int Queries>
void eight_dots(const CodeBlock& block, const LevelTable& table, int h, int lane, const QueryBatch& batch, int from,
                int32_t* dots) {
  constexpr int kBytes = Bits / 2;       // of a lane in a chunk
  constexpr int kByteGroups = 8 / Bits;  // groups in a byte
  __m256i sum[Queries];
  for (int q = 0; q < Queries; ++q) sum[q] = _mm256_setzero_si256();
  const int8_t* values = batch.values + from * kGroupChannels;
  __m256i before = _mm256_setzero_si256();
  const uint8_t* chunk = block.codes + 64 * kBytes * h + lane;
  for (int c = 0; c < block.channels / kChunkChannels; ++c, chunk += chunk_bytes(Bits)) {
    for (int byte = 0; byte < kBytes; ++byte) {
      const __m256i bytes = load(chunk + 64 * byte);
#pragma GCC unroll 4
      for (int i = 0; i < kByteGroups; ++i, values += batch.count * kGroupChannels) {
        const __m256i level = look_up(table, window(before, bytes, Bits * (i + 1)));
        const __m256i magnitude = _mm256_abs_epi8(level);
#pragma GCC unroll 8
        for (int q = 0; q < Queries; ++q) {
          int group;
          __builtin_memcpy(&group, values + q * kGroupChannels, sizeof group);
          sum[q] = add_products(sum[q], magnitude, level, _mm256_set1_epi32(group));
        }
      }
      before = bytes;
    }
  }
  for (int q = 0; q < Queries; ++q) {
    int32_t* out = dots + (from + q) * kBlockVectors + 16 * h + lane / 4;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sum[q]);
  }
}

template <int Bits>
void dots_with(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  LevelTable table;
  const __m128i offset = _mm_set1_epi8(char(block.offset));
  for (int part = 0; part < 16; ++part) {
    const __m128i level = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.level + 16 * part));
    table.part[part] = _mm256_broadcastsi128_si256(_mm_sub_epi8(level, offset));
  }
  for (int h = 0; h < 2; ++h) {
    for (int lane = 0; lane < 64; lane += 32) {
      int from = 0;
      for (; from + 8 <= batch.count; from += 8) eight_dots<Bits, 8>(block, table, h, lane, batch, from, dots);
      for (; from + 2 <= batch.count; from += 2) eight_dots<Bits, 2>(block, table, h, lane, batch, from, dots);
      if (from < batch.count) eight_dots<Bits, 1>(block, table, h, lane, batch, from, dots);
    }
  }
}

}  // namespace

void trellis_dots(const CodeBlock& block, const QueryBatch& batch, int32_t* dots) {
  if (block.bits == 2) return dots_with<2>(block, batch, dots);
  dots_with<4>(block, batch, dots);
}

void encode_trellis(int bits, const uint8_t* level, const int32_t* x, int steps, int32_t* scratch, uint8_t* codes) {
  encode_with_trellis(bits, level, x, steps, scratch, codes);
}

}  // namespace kvasir::avx2
