// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floats. Conversions round to nearest even; float to f16 saturates at the largest finite value instead of
// overflowing, since one infinite key would poison every later token.
#pragma once

#include <bit>
#include <cstdint>

namespace kvasir {

inline constexpr float kHalfMax = 65504.0f;

enum class HalfKind : uint8_t { f16, bf16 };

inline float f16_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float denormal = float(mantissa) * 0x1p-24f;
  return sign ? -denormal : denormal;
}

inline uint16_t float_to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);  // NaN stays NaN; callers saturate before
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7bffu);
  if (magnitude < 0x38800000u) {
    // Denormal: adding 0.5 aligns the mantissa so that the float unit does the rounding.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

inline float bf16_to_float(uint16_t h) {
  return std::bit_cast<float>(uint32_t(h) << 16);
}

inline uint16_t float_to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  if ((rounded & 0x7fffffffu) >= 0x7f800000u) return uint16_t(((bits >> 16) & 0x8000u) | 0x7f7fu);
  return uint16_t(rounded >> 16);
}

inline float half_to_float(HalfKind kind, uint16_t h) {
  return kind == HalfKind::f16 ? f16_to_float(h) : bf16_to_float(h);
}
inline uint16_t float_to_half(HalfKind kind, float x) {
  return kind == HalfKind::f16 ? float_to_f16(x) : float_to_bf16(x);
}

}  // namespace kvasir
