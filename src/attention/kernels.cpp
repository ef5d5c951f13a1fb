// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels.h"

#include "kvasir/error.h"

#ifdef KVASIR_X86
#include <cpuid.h>
#endif

namespace kvasir {

namespace {

#ifdef KVASIR_X86
bool has_avx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  // Not every compiler's __builtin_cpu_supports knows the name "f16c".
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

}  // namespace

bool simd_available(SimdLevel level) {
  if (level == SimdLevel::scalar) return true;
#ifdef KVASIR_X86
  static const bool avx2 = has_avx2();
  if (level == SimdLevel::avx2) return avx2;
#endif
  return false;
}

const Kernels& kernels_for(SimdLevel level) {
  if (!simd_available(level)) {
    throw Error(ErrorCode::invalid_argument,
                "SIMD level avx2 was asked for, but this program or this processor has only scalar: set "
                "KVASIR_SIMD=scalar or leave it unset");
  }
#ifdef KVASIR_X86
  if (level == SimdLevel::avx2) return avx2_kernels();
#endif
  return scalar_kernels();
}

}  // namespace kvasir
