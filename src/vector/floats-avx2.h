// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of avx2_scan() that work on floats (scan.h says what each computes). Only for *-avx2.cpp files.
#pragma once

#include <cstdint>

namespace kvasir::avx2 {

void encode(const float* y, float factor, int n, const float* edges, int edge_count, uint8_t* codes);
float dot(const float* a, const float* b, int n);
float dot_f16(const uint16_t* a, const float* b, int n);
void dot_tile(const float* a, int a_rows, const float* b, int b_rows, int n, float* out);

}  // namespace kvasir::avx2
