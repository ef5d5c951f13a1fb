// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The scale that is stored for a span of values y whose levels are c, and how it is stored.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "codec/page_layout.h"
#include "quant/log_scale.h"

namespace kvasir {

struct SpanSums {
  double energy = 0;            // <y, y>
  double cross = 0, power = 0;  // <c, y>, <c, c>
};

inline double fitted_scale(ScaleFit fit, const SpanSums& sums, int count) {
  switch (fit) {
    case ScaleFit::unbiased: return sums.energy / sums.cross;
    case ScaleFit::least_squares: return sums.cross / sums.power;
    case ScaleFit::matched: return std::sqrt(sums.energy / sums.power);
    default: return std::sqrt(sums.energy / count);
  }
}

// The scale in the codec's format: an f16, or the code of one in 8 bits.
inline uint16_t encode_scale(ScaleFormat format, float scale) {
  return format == ScaleFormat::log8 ? log_scale_code(scale) : float_to_f16(scale);
}
// What a reader makes of it.
inline float decode_scale(ScaleFormat format, uint16_t stored) {
  return f16_to_float(format == ScaleFormat::log8 ? log_scale_values()[stored] : stored);
}

// An encoded scale of one token and segment, into the page.
inline void store_token_scale(const SideLayout& layout, int segment, int token, uint16_t stored, std::byte* page) {
  const auto place = size_t(segment * kPageTokens + token);
  if (layout.codec.scale_format == ScaleFormat::log8) {
    page[layout.scales + place] = std::byte(stored);
  } else {
    reinterpret_cast<uint16_t*>(page + layout.scales)[place] = stored;
  }
}

}  // namespace kvasir
