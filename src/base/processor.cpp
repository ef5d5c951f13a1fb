// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/processor.h"

#ifdef KVASIR_X86
#include <cpuid.h>
#endif

namespace kvasir {

#ifdef KVASIR_X86

bool processor_has_avx2() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    // Not every compiler's __builtin_cpu_supports knows the name "f16c".
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }();
  return has;
}

bool processor_has_avx512() {
  static const bool has = processor_has_avx2() && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  return has;
}

#else

bool processor_has_avx2() {
  return false;
}
bool processor_has_avx512() {
  return false;
}

#endif

}  // namespace kvasir
