// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels-avx512.h"
#include "attention/lanes-avx512.h"

namespace kvasir::avx512 {

namespace {

constexpr int kLaneCount = 16;

// As in softmax-avx2.cpp: e^x for x <= 0 (or NaN), within 1.1 ulp where the result is normal, 0 below.
inline __m512 exp_lanes(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040.0f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
  p = _mm512_add_ps(p, _mm512_set1_ps(1.0f));
  const __mmask16 large_enough = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(large_enough, p, n);
}

}  // namespace

float softmax_step(float* scores, int tokens, float* max, float* sum) {
  const __m512 masked = _mm512_set1_ps(-__builtin_inff());
  __m512 top = _mm512_set1_ps(*max);
  for (int t = 0; t < tokens; t += kLaneCount) {
    top = _mm512_max_ps(top, _mm512_mask_loadu_ps(masked, first_lanes(tokens - t), scores + t));
  }
  const float new_max = _mm512_reduce_max_ps(top);
  if (new_max == -__builtin_inff()) {
    for (int t = 0; t < tokens; t += kLaneCount) {
      _mm512_mask_storeu_ps(scores + t, first_lanes(tokens - t), _mm512_setzero_ps());
    }
    return 1.0f;
  }
  const __m512 shift = _mm512_set1_ps(new_max);
  const float factor = _mm512_cvtss_f32(exp_lanes(_mm512_sub_ps(_mm512_set1_ps(*max), shift)));
  __m512 added = _mm512_setzero_ps();
  for (int t = 0; t < tokens; t += kLaneCount) {
    const __mmask16 lanes = first_lanes(tokens - t);
    const __m512 weight = exp_lanes(_mm512_sub_ps(_mm512_mask_loadu_ps(masked, lanes, scores + t), shift));
    _mm512_mask_storeu_ps(scores + t, lanes, weight);
    added = _mm512_add_ps(added, weight);
  }
  *sum = *sum * factor + _mm512_reduce_add_ps(added);
  *max = new_max;
  return factor;
}

}  // namespace kvasir::avx512
