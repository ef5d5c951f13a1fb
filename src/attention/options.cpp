// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "attention/kernels.h"
#include "kvasir/attention.h"
#include "kvasir/error.h"

namespace kvasir {

std::string to_string(SimdLevel level) {
  switch (level) {
    case SimdLevel::avx512: return "avx512";
    case SimdLevel::avx2: return "avx2";
    case SimdLevel::neon: return "neon";
    default: return "scalar";
  }
}

AttentionOptions AttentionOptions::from_environment(int threads) {
  if (threads < 1)
    throw Error(ErrorCode::invalid_argument, "-t takes 1 or more threads, got " + std::to_string(threads));
  AttentionOptions options;
  options.threads = threads;
  const char* reference = std::getenv("KVASIR_REFERENCE");
  options.reference = reference && std::string(reference) == "1";
  const char* simd = std::getenv("KVASIR_SIMD");
  if (!simd || !*simd) {
    for (const SimdLevel level : kSimdLevels)
      if (simd_available(level) && !simd_emulated(level)) options.simd = level;  // the last is the best
    return options;
  }
  for (const SimdLevel level : kSimdLevels)
    if (simd == to_string(level)) {
      kernels_for(level);  // throws if this machine or build lacks it
      options.simd = level;
      return options;
    }
  throw Error(ErrorCode::invalid_argument,
              "KVASIR_SIMD takes scalar, avx2, avx512 or neon, got '" + std::string(simd) + "'");
}

}  // namespace kvasir
