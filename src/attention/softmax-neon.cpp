// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels-neon.h"
#include "attention/lanes-neon.h"

namespace kvasir::neon {

namespace {

// e^x for x <= 0 (or NaN) as in softmax-avx2.cpp, where the constants are explained.
inline float32x4_t exp_lanes(float32x4_t x) {
  const float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 0x1.715476p+0f));
  float32x4_t r = vfmaq_n_f32(x, n, -0x1.62e4p-1f);
  r = vfmaq_n_f32(r, n, -0x1.7f7d1cp-20f);
  float32x4_t p = vdupq_n_f32(1.0f / 5040.0f);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 720.0f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 120.0f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 24.0f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.0f / 6.0f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
  p = vfmaq_f32(r, p, vmulq_f32(r, r));
  p = vaddq_f32(p, vdupq_n_f32(1.0f));
  // Where n is out of range the lane is too small and dropped, or NaN through p.
  const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
  const float32x4_t result = vmulq_f32(p, vreinterpretq_f32_s32(exponent));
  const uint32x4_t too_small = vcltq_f32(x, vdupq_n_f32(-87.3f));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(result), too_small));
}

// NaN is ignored, as it is by comparisons in the plain twin; it stays in the weights.
inline float max_lanes(float32x4_t x) {
  const float32x4_t pairs = vmaxnmq_f32(x, vextq_f32(x, x, 2));
  return vgetq_lane_f32(vmaxnmq_f32(pairs, vextq_f32(pairs, pairs, 1)), 0);
}

}  // namespace

float softmax_step(float* scores, int tokens, float* max, float* sum) {
  const int whole = tokens & ~(kLaneCount - 1), rest = tokens - whole;
  float32x4_t top = vdupq_n_f32(*max);
  for (int t = 0; t < whole; t += kLaneCount) top = vmaxnmq_f32(top, vld1q_f32(scores + t));
  float last[kLaneCount];
  vst1q_f32(last, vdupq_n_f32(-__builtin_inff()));
  for (int t = 0; t < rest; ++t) last[t] = scores[whole + t];
  const float32x4_t tail = vld1q_f32(last);
  const float new_max = max_lanes(vmaxnmq_f32(top, tail));
  if (new_max == -__builtin_inff()) {
    std::memset(scores, 0, size_t(tokens) * sizeof(float));
    return 1.0f;
  }
  const float32x4_t shift = vdupq_n_f32(new_max);
  const float factor = vgetq_lane_f32(exp_lanes(vsubq_f32(vdupq_n_f32(*max), shift)), 0);
  float32x4_t added = vdupq_n_f32(0.0f);
  for (int t = 0; t < whole; t += kLaneCount) {
    const float32x4_t weight = exp_lanes(vsubq_f32(vld1q_f32(scores + t), shift));
    vst1q_f32(scores + t, weight);
    added = vaddq_f32(added, weight);
  }
  if (rest > 0) {
    const float32x4_t weight = exp_lanes(vsubq_f32(tail, shift));
    vst1q_f32(last, weight);
    for (int t = 0; t < rest; ++t) scores[whole + t] = last[t];
    added = vaddq_f32(added, weight);
  }
  *sum = *sum * factor + vaddvq_f32(added);
  *max = new_max;
  return factor;
}

}  // namespace kvasir::neon
