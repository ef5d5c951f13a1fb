// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "codec/half_rows.h"

namespace kvasir::avx2 {

bool store_f16(const float* x, size_t count, uint16_t* out) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), most = _mm256_set1_ps(kHalfMax);
  __m256 fits = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  for (size_t i = 0; i < count; i += 8) {
    const __m256 value = _mm256_loadu_ps(x + i);
    fits = _mm256_and_ps(fits, _mm256_cmp_ps(_mm256_and_ps(value, magnitude), most, _CMP_LE_OQ));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  return _mm256_movemask_ps(fits) == 0xff;
}

void load_f16(const uint16_t* x, size_t count, float* out) {
  for (size_t i = 0; i < count; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
}

}  // namespace kvasir::avx2
