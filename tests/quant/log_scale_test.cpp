// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/log_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"

namespace kvasir {
namespace {

float value(int code) {
  return f16_to_float(log_scale_values()[size_t(code)]);
}

TEST(LogScale, CodesStandForThemselves) {
  for (int code = 0; code < 256; ++code) EXPECT_EQ(log_scale_code(value(code)), code);
  EXPECT_EQ(value(0), 0.0f);
  EXPECT_EQ(value(128), 1.0f);
  EXPECT_EQ(value(144), 2.0f);
}

TEST(LogScale, ManyAtOnceAreThoseOfTheTable) {
  for (const int count : {1, 7, 64, 256}) {
    std::vector<uint8_t> codes;
    for (int i = 0; i < count; ++i) codes.push_back(uint8_t(i + 256 - count));
    std::vector<uint16_t> values(codes.size());
    widen_log_scales(codes.data(), count, values.data());
    for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(values[i], log_scale_values()[codes[i]]) << int(codes[i]);
  }
  const uint8_t zero = 0;
  uint16_t none = 1;
  widen_log_scales(&zero, 1, &none);
  EXPECT_EQ(none, 0);
}

TEST(LogScale, NearestIsWithinHalfAStep) {
  const double most = std::exp2(0.5 / 16) * (1 + 0x1p-10);
  for (double x = value(1); x < value(255); x *= 1.003) {
    const double ratio = x / double(value(log_scale_code(float(x))));
    EXPECT_LE(std::max(ratio, 1 / ratio), most) << x;
  }
}

TEST(LogScale, EndsHold) {
  EXPECT_EQ(log_scale_code(0.0f), 0);
  EXPECT_EQ(log_scale_code(-1.0f), 0);
  EXPECT_EQ(log_scale_code(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(log_scale_code(1e-30f), 1);
  EXPECT_EQ(log_scale_code(1e30f), 255);
}

}  // namespace
}  // namespace kvasir
