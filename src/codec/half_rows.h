// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of 16-bit floats, many values at once. Results are those of base/half.h on every processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

namespace kvasir {

// Returns how many values couldn't be stored: what is beyond the largest finite half becomes it, NaN becomes 0.
size_t store_halves(HalfKind kind, const float* x, size_t count, uint16_t* out);
// Finite halves.
void load_halves(HalfKind kind, const uint16_t* x, size_t count, float* out);

#ifdef KVASIR_X86
namespace avx2 {
// False if a value can't be stored; what was written then means nothing. count is a multiple of 8.
bool store_f16(const float* x, size_t count, uint16_t* out);
void load_f16(const uint16_t* x, size_t count, float* out);
}  // namespace avx2
#endif

}  // namespace kvasir
