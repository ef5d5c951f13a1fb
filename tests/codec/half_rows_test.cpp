// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/half_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace kvasir {
namespace {

// Every exponent, rounding either way and ties; rows of which some hold what can't be stored.
TEST(HalfRows, AreThoseOfOneValueAfterTheOther) {
  SplitMix random(3);
  for (const HalfKind kind : {HalfKind::f16, HalfKind::bf16})
    for (const size_t count : {size_t(8), size_t(20), size_t(64)})
      for (int row = 0; row < 4000; ++row) {
        std::vector<float> x(count), back(count);
        for (float& value : x) {
          const auto bits = uint32_t(random.next());
          value = std::bit_cast<float>(row % 2 ? bits & 0xfffff000u : bits);
          if (row % 4 != 3 && !(std::abs(value) <= kHalfMax)) value = float(random.normal());
        }
        std::vector<uint16_t> stored(count), expected(count);
        size_t lost = 0;
        const float most = kind == HalfKind::f16 ? kHalfMax : bf16_to_float(0x7f7f);
        for (size_t i = 0; i < count; ++i) {
          const bool fits = std::abs(x[i]) <= most;
          lost += fits ? 0 : 1;
          expected[i] = float_to_half(kind, fits ? x[i] : std::isnan(x[i]) ? 0.0f : std::copysign(most, x[i]));
        }
        EXPECT_EQ(store_halves(kind, x.data(), count, stored.data()), lost);
        ASSERT_EQ(stored, expected);
        load_halves(kind, stored.data(), count, back.data());
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(back[i], half_to_float(kind, stored[i]));
      }
}

}  // namespace
}  // namespace kvasir
