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

// The operating system's consent to the wide registers is part of the answer.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

bool simd_available(SimdLevel level) {
  if (level == SimdLevel::scalar) return true;
#ifdef KVASIR_X86
  static const bool avx2 = has_avx2(), avx512 = has_avx512();
  if (level == SimdLevel::avx2) return avx2;
  if (level == SimdLevel::avx512) return avx512;
#endif
  return false;
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
  return scalar_kernels();
}

}  // namespace kvasir
