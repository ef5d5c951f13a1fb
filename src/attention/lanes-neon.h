// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Loads and sums of 4 lanes, codes by 32, for *-neon.cpp files only. Everything is static, as in lanes-avx2.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "base/neon.h"
#include "codec/page_layout.h"

namespace kvasir::neon {

inline constexpr int kLaneCount = 4;

[[maybe_unused]] static inline float32x4_t load_f16(const uint16_t* halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)));
}

template <HalfKind kind>
static inline float32x4_t load_halves(const uint16_t* halves) {
  if constexpr (kind == HalfKind::f16) {
    return load_f16(halves);
  } else {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(halves), 16));
  }
}

// 32 codes or levels. A 32-bit lane is 4 channels of a token (keys) or 4 tokens of a channel (values).
struct Vector {
  uint8x16_t half[2];
};

[[maybe_unused]] static inline Vector load_vector(const uint8_t* bytes) {
  return {{vld1q_u8(bytes), vld1q_u8(bytes + 16)}};
}

[[maybe_unused]] static inline void store_vector(uint8_t* bytes, const Vector& x) {
  vst1q_u8(bytes, x.half[0]);
  vst1q_u8(bytes + 16, x.half[1]);
}

// The W bits of each byte that begin at bit From, moved to bit To; all others are 0.
template <int W, int From, int To>
static inline uint8x16_t move_field(uint8x16_t word) {
  if constexpr (W == 8) {
    return word;
  } else if constexpr (To == 0 && From + W == 8) {
    return vshrq_n_u8(word, From);
  } else {
    uint8x16_t moved = word;
    if constexpr (From > To) moved = vshrq_n_u8(word, From - To);
    if constexpr (From < To) moved = vshlq_n_u8(word, To - From);
    return vandq_u8(moved, vdupq_n_u8(uint8_t(((1 << W) - 1) << To)));
  }
}

// Vector V of a cell of codes of 1 to 6 bits.
template <int Bits, int V>
static inline Vector load_codes(const uint8_t* cell) {
  constexpr Planes planes = planes_of(Bits);
  constexpr int low_width = planes.width[0], low_count = 8 / low_width;
  Vector code = load_vector(cell + V / low_count * kVectorCodes);
  for (uint8x16_t& x : code.half) x = move_field<low_width, V % low_count * low_width, 0>(x);
  if constexpr (planes.count == 2) {
    constexpr int high_width = planes.width[1], high_count = 8 / high_width;
    const Vector high = load_vector(cell + (low_width + V / high_count) * kVectorCodes);
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t moved = move_field<high_width, V % high_count * high_width, low_width>(high.half[i]);
      code.half[i] = vorrq_u8(code.half[i], moved);
    }
  }
  return code;
}

}  // namespace kvasir::neon
