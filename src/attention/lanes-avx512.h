// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Loads of 16 lanes, for *-avx512.cpp files only. Everything is static: a copy per file, none for the linker.
#pragma once

#include <immintrin.h>

#include <cstdint>

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

}  // namespace kvasir::avx512
