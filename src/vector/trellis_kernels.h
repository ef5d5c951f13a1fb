// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of avx2_scan() and avx512_scan() for trellis codes (scan.h says what each computes).
#pragma once

#include "vector/scan.h"

namespace kvasir {

namespace avx2 {
void trellis_dots(const CodeBlock& block, const QueryBatch& batch, int32_t* dots);
void encode_trellis(int bits, const uint8_t* level, const int32_t* x, int steps, int32_t* scratch, uint8_t* codes);
}  // namespace avx2

namespace avx512 {
void trellis_dots(const CodeBlock& block, const QueryBatch& batch, int32_t* dots);
void encode_trellis(int bits, const uint8_t* level, const int32_t* x, int steps, int32_t* scratch, uint8_t* codes);
}  // namespace avx512

}  // namespace kvasir
