// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>

namespace {

using Floats = float __attribute__((vector_size(32), aligned(4), may_alias));
using HalfFloats = float __attribute__((vector_size(16), aligned(4), may_alias));
using Ints = int __attribute__((vector_size(32), aligned(4), may_alias));
using Doubles = double __attribute__((vector_size(32), aligned(8), may_alias));

inline Doubles low_doubles(Floats x) {
  return (Doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
}
inline Doubles high_doubles(Floats x) {
  return (Doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
}
inline void store_bytes(Ints x, uint8_t* to) {
  const __m256i lowest = _mm256_set1_epi64x(0x0c080400);
  const __m256i bytes = _mm256_shuffle_epi8((__m256i)x, lowest);  // four bytes at the start of either half
  const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64((__m128i*)to, both);
}

}  // namespace

#include "codec/token_fits_loops.h"

namespace kvasir::avx2 {

const TokenFits& token_fits() {
  return kLoops;
}

}  // namespace kvasir::avx2
