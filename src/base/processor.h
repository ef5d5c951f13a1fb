// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kvasir {

// What this processor and its operating system let a program use; asked once. False on other architectures than x86.
bool processor_has_avx2();    // AVX2, FMA, F16C: what *-avx2.cpp is compiled for
bool processor_has_avx512();  // those and AVX-512 F, BW, VL, DQ, VNNI: *-avx512.cpp

}  // namespace kvasir
