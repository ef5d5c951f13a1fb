// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Loads of 16 lanes, codes by 64, for *-avx512.cpp files only. Everything is static: a copy per file, none for the
// linker.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "attention/lanes-avx2.h"
#include "codec/page_layout.h"

namespace kvasir::avx512 {

[[maybe_unused]] static inline __m512 load_f16(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}
[[maybe_unused]] static inline __m256 load_f16_8(const uint16_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}
[[maybe_unused]] static inline __m512i load_bytes(const void* bytes) {
  return _mm512_loadu_si512(bytes);
}
// The first `count` of 16 lanes.
[[maybe_unused]] static inline __mmask16 first_lanes(int count) {
  return count >= 16 ? __mmask16(0xffff) : __mmask16((1u << count) - 1u);
}

[[maybe_unused]] static inline __m512i load_twins(const uint8_t* first, const uint8_t* second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(avx2::load_bytes(first)), avx2::load_bytes(second), 1);
}

// 16-bit shifts carry bits over from the neighbour byte; the mask drops them.
[[maybe_unused]] static inline __m512i low_bits(__m512i words, int width) {
  return _mm512_and_si512(words, _mm512_set1_epi8(char((1 << width) - 1)));
}

// The fields of W bits in vectors 2 P and 2 P + 1 of a plane. Both lie in the same word: it goes to both halves, and
// each is shifted by its own amount.
template <int W, int P>
static inline __m512i load_field_pair(const uint8_t* plane) {
  constexpr int per_word = 8 / W, first = 2 * P, low = first % per_word * W;
  const __m512i word = _mm512_broadcast_i64x4(avx2::load_bytes(plane + first / per_word * kVectorCodes));
  const __m512i shift = _mm512_inserti64x4(_mm512_set1_epi16(low), _mm256_set1_epi16(low + W), 1);
  return low_bits(_mm512_srlv_epi16(word, shift), W);
}

// Those in vector V of two planes that lie `apart` bytes apart.
template <int W, int V>
static inline __m512i load_field_twins(const uint8_t* plane, ptrdiff_t apart) {
  constexpr int per_word = 8 / W;
  const uint8_t* word = plane + V / per_word * kVectorCodes;
  return low_bits(_mm512_srli_epi16(load_twins(word, word + apart), V % per_word * W), W);
}

// Vectors 2 P and 2 P + 1 of a cell of codes of 1 to 6 bits.
template <int Bits, int P>
static inline __m512i load_code_pair(const uint8_t* cell) {
  constexpr Planes planes = planes_of(Bits);
  const __m512i low = load_field_pair<planes.width[0], P>(cell);
  if constexpr (planes.count == 1) {
    return low;
  } else {
    const __m512i high = load_field_pair<planes.width[1], P>(cell + kVectorCodes * planes.width[0]);
    return _mm512_or_si512(low, _mm512_slli_epi16(high, planes.width[0]));
  }
}

// Vector V of two cells.
template <int Bits, int V>
static inline __m512i load_code_twins(const uint8_t* cell, ptrdiff_t apart) {
  constexpr Planes planes = planes_of(Bits);
  const __m512i low = load_field_twins<planes.width[0], V>(cell, apart);
  if constexpr (planes.count == 1) {
    return low;
  } else {
    const __m512i high = load_field_twins<planes.width[1], V>(cell + kVectorCodes * planes.width[0], apart);
    return _mm512_or_si512(low, _mm512_slli_epi16(high, planes.width[0]));
  }
}

}  // namespace kvasir::avx512
