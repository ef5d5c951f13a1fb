// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels-avx2.h"
#include "attention/lanes-avx2.h"

namespace kvasir::avx2 {

namespace {

constexpr int kLaneCount = 8;

// e^x for x <= 0 (or NaN), within 1.1 ulp where the result is normal, 0 below. x = n ln 2 + r with |r| <= ln 2 / 2;
// ln 2 is split in two so that n ln 2 is exact (Cody and Waite 1980); e^r by its Taylor polynomial of degree 7, whose
// remainder at ln 2 / 2 is 5e-9, a twelfth of an ulp.
inline __m256 exp_lanes(__m256 x) {
  const __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  __m256 p = _mm256_set1_ps(1.0f / 5040.0f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
  p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  const __m256 result = _mm256_mul_ps(p, _mm256_castsi256_ps(exponent));
  const __m256 too_small = _mm256_cmp_ps(x, _mm256_set1_ps(-87.3f), _CMP_LT_OQ);
  return _mm256_andnot_ps(too_small, result);
}

// All ones in the lanes that exist when `left` scores are left.
inline __m256i lane_mask(int left) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace

float softmax_step(float* scores, int tokens, float* max, float* sum) {
  const __m256 masked = _mm256_set1_ps(-__builtin_inff());
  const int whole = tokens & ~(kLaneCount - 1);
  const __m256i rest = lane_mask(tokens - whole);
  __m256 top = _mm256_set1_ps(*max);
  for (int t = 0; t < whole; t += kLaneCount) top = _mm256_max_ps(top, _mm256_loadu_ps(scores + t));
  __m256 tail = masked;
  if (whole < tokens) {
    tail = _mm256_blendv_ps(masked, _mm256_maskload_ps(scores + whole, rest), _mm256_castsi256_ps(rest));
    top = _mm256_max_ps(top, tail);
  }
  const float new_max = max_lanes(top);
  if (new_max == -__builtin_inff()) {
    std::memset(scores, 0, size_t(tokens) * sizeof(float));
    return 1.0f;
  }
  const __m256 shift = _mm256_set1_ps(new_max);
  // Needs nothing of the loop below and runs beside it.
  const float factor = _mm256_cvtss_f32(exp_lanes(_mm256_sub_ps(_mm256_set1_ps(*max), shift)));
  __m256 added = _mm256_setzero_ps();
  for (int t = 0; t < whole; t += kLaneCount) {
    const __m256 weight = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + t), shift));
    _mm256_storeu_ps(scores + t, weight);
    added = _mm256_add_ps(added, weight);
  }
  if (whole < tokens) {
    const __m256 weight = exp_lanes(_mm256_sub_ps(tail, shift));
    _mm256_maskstore_ps(scores + whole, rest, weight);
    added = _mm256_add_ps(added, weight);
  }
  *sum = *sum * factor + sum_lanes(added);
  *max = new_max;
  return factor;
}

}  // namespace kvasir::avx2
