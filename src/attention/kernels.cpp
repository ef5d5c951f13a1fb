// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels.h"

#include "base/processor.h"
#include "kvasir/error.h"

namespace kvasir {

namespace {

#ifdef KVASIR_NEON_EMULATION
constexpr bool kEmulatesNeon = true;
#else
constexpr bool kEmulatesNeon = false;
#endif

bool has_neon() {
#if !defined(KVASIR_NEON)
  return false;
#elif defined(KVASIR_X86)
  return processor_has_avx2();  // what the emulation is compiled for
#else
  return true;
#endif
}

}  // namespace

bool simd_available(SimdLevel level) {
  switch (level) {
    case SimdLevel::avx512: return processor_has_avx512();
    case SimdLevel::avx2: return processor_has_avx2();
    case SimdLevel::neon: return has_neon();
    default: return true;
  }
}

bool simd_emulated(SimdLevel level) {
  return level == SimdLevel::neon && kEmulatesNeon;
}

const Kernels& kernels_for(SimdLevel level) {
  if (!simd_available(level)) {
    std::string there;
    for (const SimdLevel other : kSimdLevels)
      if (simd_available(other)) there += (there.empty() ? "" : ", ") + to_string(other);
    throw Error(ErrorCode::invalid_argument, "SIMD level " + to_string(level) +
                                                 " was asked for, but this program on this processor has " + there +
                                                 ": set KVASIR_SIMD to one of these or leave it unset");
  }
#ifdef KVASIR_X86
  if (level == SimdLevel::avx2) return avx2_kernels();
  if (level == SimdLevel::avx512) return avx512_kernels();
#endif
#ifdef KVASIR_NEON
  if (level == SimdLevel::neon) return neon_kernels();
#endif
  return scalar_kernels();
}

}  // namespace kvasir
