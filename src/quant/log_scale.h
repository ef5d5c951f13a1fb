// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Scales in 8 bits: code 0 stands for 0, code n > 0 for 2^((n - 128) / 16), as f16 so that every reader agrees on the
// value to the last bit. From 2^-7.9 to 2^7.9 the nearest is at most 2.2 % off, and levels are chosen against it.
#pragma once

#include <array>
#include <cstdint>

namespace kvasir {

// f16, by code.
const std::array<uint16_t, 256>& log_scale_values();
// The same of so many codes at once, for loops over pages: computed, not looked up.
void widen_log_scales(const uint8_t* codes, int count, uint16_t* values);

// The code nearest in ratio; what is beyond the range gets its end, and 0 (or what isn't positive) 0.
uint8_t log_scale_code(float scale);

}  // namespace kvasir
