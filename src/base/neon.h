// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// NEON (AArch64's Advanced SIMD, as of ARMv8.0-A) for *-neon.cpp files: the compiler's own on ARM; on other processors
// SIMDe, which computes the same with what is there, so that the kernels are tested without an ARM machine
// (KVASIR_NEON_EMULATION). There intrinsics are macros: no comma in their arguments outside parentheses. Everything is
// static: a copy per file, none for the linker.
#pragma once

#ifdef KVASIR_NEON_EMULATION
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
#else
#include <arm_neon.h>
#endif

// For functions that must be inlined. Emulated they must not: a compiler takes minutes over the unrolled code of all
// of their copies.
#ifdef KVASIR_NEON_EMULATION
#define KVASIR_NEON_INLINE [[gnu::noinline]]
#else
#define KVASIR_NEON_INLINE [[gnu::always_inline]] inline
#endif

namespace kvasir::neon {

// Two instructions that SIMDe 0.7 doesn't know.

// To the nearest integer, halves to even.
[[maybe_unused]] static inline int32x4_t round_lanes(float32x4_t x) {
#ifdef KVASIR_NEON_EMULATION
  return vcvtq_s32_f32(vrndnq_f32(x));
#else
  return vcvtnq_s32_f32(x);
#endif
}

// sums += lanes 4 to 7 of x times lane `Lane` of y.
template <int Lane>
static inline int32x4_t add_high_products(int32x4_t sums, int16x8_t x, int16x8_t y) {
#ifdef KVASIR_NEON_EMULATION
  return vmlal_laneq_s16(sums, vget_high_s16(x), y, Lane);
#else
  return vmlal_high_laneq_s16(sums, x, y, Lane);
#endif
}

}  // namespace kvasir::neon
