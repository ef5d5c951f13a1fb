// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/floats-avx2.h"

#include <immintrin.h>

namespace kvasir::avx2 {
namespace {

inline float sum_lanes(__m256 x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline float half_at(const uint16_t* halves) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(*halves)));
}

// Rows x Columns products at once: each load serves several of them.
template <int Rows, int Columns>
inline void products(const float* a, const float* b, int n, float* out, int stride) {
  __m256 sum[Rows][Columns];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) sum[i][j] = _mm256_setzero_ps();
  int k = 0;
  for (; k + 8 <= n; k += 8) {
    __m256 right[Columns];
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) right[j] = _mm256_loadu_ps(b + long(j) * n + k);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const __m256 left = _mm256_loadu_ps(a + long(i) * n + k);
#pragma GCC unroll 4
      for (int j = 0; j < Columns; ++j) sum[i][j] = _mm256_fmadd_ps(left, right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Columns; ++j) {
      float dot = sum_lanes(sum[i][j]);
      for (int rest = k; rest < n; ++rest) dot += a[long(i) * n + rest] * b[long(j) * n + rest];
      out[i * stride + j] = dot;
    }
}

}  // namespace

void encode(const float* y, float factor, int n, const float* edges, int edge_count, uint8_t* codes) {
  const __m256 scale = _mm256_set1_ps(factor);
  for (int j = 0; j < n; j += 16) {
    const __m256 first = _mm256_mul_ps(_mm256_loadu_ps(y + j), scale);
    const __m256 second = _mm256_mul_ps(_mm256_loadu_ps(y + j + 8), scale);
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int e = 0; e < edge_count; ++e) {
      const __m256 edge = _mm256_set1_ps(edges[e]);
      // A comparison that holds is -1.
      low = _mm256_sub_epi32(low, _mm256_castps_si256(_mm256_cmp_ps(edge, first, _CMP_LE_OQ)));
      high = _mm256_sub_epi32(high, _mm256_castps_si256(_mm256_cmp_ps(edge, second, _CMP_LE_OQ)));
    }
    // Packing works within 128-bit lanes: [l0 h0 | l1 h1] -> [l0 l1 h0 h1].
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + j), bytes);
  }
}

float dot(const float* a, const float* b, int n) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int k = 0;
  for (; k + 32 <= n; k += 32)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(a + k + 8 * i), _mm256_loadu_ps(b + k + 8 * i), sum[i]);
  float total = sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
  for (; k < n; ++k) total += a[k] * b[k];
  return total;
}

float dot_f16(const uint16_t* a, const float* b, int n) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int k = 0;
  for (; k + 32 <= n; k += 32)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m256 left = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + k + 8 * i)));
      sum[i] = _mm256_fmadd_ps(left, _mm256_loadu_ps(b + k + 8 * i), sum[i]);
    }
  float total = sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
  for (; k < n; ++k) total += half_at(a + k) * b[k];
  return total;
}

void dot_tile(const float* a, int a_rows, const float* b, int b_rows, int n, float* out) {
  int i = 0;
  for (; i + 4 <= a_rows; i += 4) {
    int j = 0;
    for (; j + 2 <= b_rows; j += 2) products<4, 2>(a + long(i) * n, b + long(j) * n, n, out + i * b_rows + j, b_rows);
    if (j < b_rows) products<4, 1>(a + long(i) * n, b + long(j) * n, n, out + i * b_rows + j, b_rows);
  }
  for (; i < a_rows; ++i)
    for (int j = 0; j < b_rows; ++j) products<1, 1>(a + long(i) * n, b + long(j) * n, n, out + i * b_rows + j, b_rows);
}

}  // namespace kvasir::avx2
