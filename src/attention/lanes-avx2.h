// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Loads and sums of 8 lanes, codes by 32, for *-avx2.cpp files only. Everything is static: a copy per file, none for
// the linker.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "codec/page_layout.h"

namespace kvasir::avx2 {

[[maybe_unused]] static inline __m256 load_f16(const uint16_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}

template <HalfKind kind>
static inline __m256 load_halves(const uint16_t* halves) {
  if constexpr (kind == HalfKind::f16) {
    return load_f16(halves);
  } else {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

[[maybe_unused]] static inline __m256i load_bytes(const void* bytes) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(bytes));
}

// The 32 fields of W bits in vector V of a plane.
template <int W, int V>
static inline __m256i load_fields(const uint8_t* plane) {
  constexpr int per_word = 8 / W;
  const __m256i word = load_bytes(plane + V / per_word * kVectorCodes);
  // 16-bit shifts carry bits over from the neighbour byte; the mask drops them.
  return _mm256_and_si256(_mm256_srli_epi16(word, V % per_word * W), _mm256_set1_epi8(char((1 << W) - 1)));
}

// Vector V of a cell of codes of 1 to 6 bits.
template <int Bits, int V>
static inline __m256i load_codes(const uint8_t* cell) {
  constexpr Planes planes = planes_of(Bits);
  const __m256i low = load_fields<planes.width[0], V>(cell);
  if constexpr (planes.count == 1) {
    return low;
  } else {
    const __m256i high = load_fields<planes.width[1], V>(cell + kVectorCodes * planes.width[0]);
    return _mm256_or_si256(low, _mm256_slli_epi16(high, planes.width[0]));
  }
}

[[maybe_unused]] static inline float sum_lanes(__m256 x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

[[maybe_unused]] static inline int sum_lanes(__m256i x) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(2, 3, 0, 1))));
}

[[maybe_unused]] static inline float max_lanes(__m256 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

}  // namespace kvasir::avx2
