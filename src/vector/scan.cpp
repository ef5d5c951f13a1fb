// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/scan.h"

#include <cstdlib>

#include "base/processor.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

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
  switch (level) {
    case ScanLevel::avx512: return processor_has_avx512();
    case ScanLevel::avx2: return processor_has_avx2();
    default: return true;
  }
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
