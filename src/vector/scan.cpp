// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/scan.h"

#include <cstdlib>

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

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

const ScanKernels& chosen() {
  const char* simd = std::getenv("KVASIR_SIMD");
  if (!simd || !*simd) {
    for (const ScanLevel level : {ScanLevel::avx512, ScanLevel::avx2})
      if (scan_available(level)) return scan_kernels(level);
    return scan_kernels(ScanLevel::scalar);
  }
  for (const ScanLevel level : {ScanLevel::scalar, ScanLevel::avx2, ScanLevel::avx512})
    if (simd == to_string(level)) return scan_kernels(level);
  throw Error(ErrorCode::invalid_argument,
              "KVASIR_SIMD takes scalar, avx2 or avx512 here, got '" + std::string(simd) + "'");
}

}  // namespace

std::string to_string(ScanLevel level) {
  return level == ScanLevel::avx512 ? "avx512" : level == ScanLevel::avx2 ? "avx2" : "scalar";
}

bool scan_available(ScanLevel level) {
  if (level == ScanLevel::scalar) return true;
#ifdef KVASIR_X86
  static const bool avx2 = has_avx2(), avx512 = has_avx512();
  return level == ScanLevel::avx2 ? avx2 : avx512;
#else
  return false;
#endif
}

const ScanKernels& scan_kernels(ScanLevel level) {
  if (!scan_available(level)) {
    throw Error(ErrorCode::invalid_argument, "SIMD level " + to_string(level) +
                                                 " was asked for, but this program or this processor lacks it: leave "
                                                 "KVASIR_SIMD unset or set it to scalar");
  }
#ifdef KVASIR_X86
  if (level == ScanLevel::avx512) return avx512_scan();
  if (level == ScanLevel::avx2) return avx2_scan();
#endif
  return scalar_scan();
}

const ScanKernels& scan_kernels() {
  static const ScanKernels& kernels = chosen();
  return kernels;
}

}  // namespace kvasir
