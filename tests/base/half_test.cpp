// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvasir {
namespace {

TEST(Half, EveryF16ComesBack) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float x = f16_to_float(uint16_t(h));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(float_to_f16(x), h) << std::hex << h;
  }
}

TEST(Half, EveryBf16ComesBack) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float x = bf16_to_float(uint16_t(h));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(float_to_bf16(x), h) << std::hex << h;
  }
}

TEST(Half, RoundsToNearestEven) {
  // Halfway between consecutive finite f16 values goes to the even one; a hair more goes up.
  for (uint32_t h = 0; h < 0x7bff; ++h) {
    const float low = f16_to_float(uint16_t(h)), high = f16_to_float(uint16_t(h + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(float_to_f16(middle), h % 2 == 0 ? h : h + 1) << std::hex << h;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, high)), h + 1) << std::hex << h;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, low)), h) << std::hex << h;
  }
}

TEST(Half, SaturatesInsteadOfOverflowing) {
  for (float x : {65520.0f, 1e5f, 3e38f, INFINITY}) {
    EXPECT_EQ(f16_to_float(float_to_f16(x)), kHalfMax);
    EXPECT_EQ(f16_to_float(float_to_f16(-x)), -kHalfMax);
  }
  EXPECT_TRUE(std::isfinite(bf16_to_float(float_to_bf16(3.4e38f))));
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(NAN))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(NAN))));
}

}  // namespace
}  // namespace kvasir
