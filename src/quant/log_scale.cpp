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

// A cubic in 16-bit fixed point gives 2^x - 1 for the 16 fractions x to all of f16's ten bits, in operations that
// compilers do for eight codes or more at once.
void widen_log_scales(const uint8_t* codes, int count, uint16_t* values) {
  constexpr uint16_t kCubic = 4603, kSquare = 15455, kLinear = 45410;
  const auto times = [](uint16_t a, uint16_t b) { return uint16_t((uint32_t(a) * uint32_t(b)) >> 16); };
  for (int i = 0; i < count; ++i) {
    const uint16_t code = codes[i];
    const auto x = uint16_t(code << 12);  // the low four bits, as a fraction of 2^16
    const auto inner = uint16_t(times(x, kCubic) + kSquare);
    const uint16_t fraction = times(x, uint16_t(times(x, inner) + kLinear));
    const auto exponent = uint16_t((code >> 4) + 7);
    const auto value = uint16_t((exponent << 10) | uint16_t((fraction + 32) >> 6));
    values[i] = code == 0 ? uint16_t(0) : value;
  }
}

uint8_t log_scale_code(float scale) {
  if (!(scale > 0)) return 0;
  const float steps = std::nearbyint(std::log2(scale) * kStepsPerOctave) + kOne;
  return uint8_t(std::clamp(steps, 1.0f, 255.0f));
}

}  // namespace kvasir
