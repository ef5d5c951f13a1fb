// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels.h"

#include "base/processor.h"
#include "kvasir/error.h"

namespace kvasir {

bool simd_available(SimdLevel level) {
  switch (level) {
    case SimdLevel::avx512: return processor_has_avx512();
    case SimdLevel::avx2: return processor_has_avx2();
    default: return true;
  }
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
