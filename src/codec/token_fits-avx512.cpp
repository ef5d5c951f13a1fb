// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>

namespace {

using Floats = float __attribute__((vector_size(64), aligned(4), may_alias));
using HalfFloats = float __attribute__((vector_size(32), aligned(4), may_alias));
using Ints = int __attribute__((vector_size(64), aligned(4), may_alias));
using Doubles = double __attribute__((vector_size(64), aligned(8), may_alias));

inline Doubles low_doubles(Floats x) {
  return (Doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
}
inline Doubles high_doubles(Floats x) {
  return (Doubles)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
}
inline void store_bytes(Ints x, uint8_t* to) {
  _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8((__m512i)x));
}

}  // namespace

#include "codec/token_fits_loops.h"

namespace kvasir::avx512 {

const TokenFits& token_fits() {
  return kLoops;
}

}  // namespace kvasir::avx512
