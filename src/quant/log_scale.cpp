// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/log_scale.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace kvasir {
namespace {

constexpr int kOne = 128;  // the code of 1
constexpr int kStepsPerOctave = 16;

}  // namespace

const std::array<uint16_t, 256>& log_scale_values() {
  static const std::array<uint16_t, 256> values = [] {
    std::array<uint16_t, 256> table{};
    for (int code = 1; code < 256; ++code)
      table[size_t(code)] = float_to_f16(float(std::exp2(double(code - kOne) / kStepsPerOctave)));
    return table;
  }();
  return values;
}

uint8_t log_scale_code(float scale) {
  if (!(scale > 0)) return 0;
  const float steps = std::nearbyint(std::log2(scale) * kStepsPerOctave) + kOne;
  return uint8_t(std::clamp(steps, 1.0f, 255.0f));
}

}  // namespace kvasir
