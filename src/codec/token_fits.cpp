// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "base/processor.h"

namespace {

using Floats = float __attribute__((vector_size(16), aligned(4), may_alias));
using HalfFloats = float __attribute__((vector_size(8), aligned(4), may_alias));
using Ints = int __attribute__((vector_size(16), aligned(4), may_alias));
using Doubles = double __attribute__((vector_size(16), aligned(8), may_alias));

inline Doubles low_doubles(Floats x) {
  return Doubles{double(x[0]), double(x[1])};
}
inline Doubles high_doubles(Floats x) {
  return Doubles{double(x[2]), double(x[3])};
}
inline void store_bytes(Ints x, uint8_t* to) {
  for (int i = 0; i < 4; ++i) to[i] = uint8_t(x[i]);
}

}  // namespace

#include "codec/token_fits_loops.h"

namespace kvasir {

std::vector<const TokenFits*> all_token_fits() {
  std::vector<const TokenFits*> all = {&kLoops};
#ifdef KVASIR_X86
  if (processor_has_avx2()) all.push_back(&avx2::token_fits());
  if (processor_has_avx512()) all.push_back(&avx512::token_fits());
#endif
  return all;
}

const TokenFits& token_fits() {
  static const TokenFits& fastest = *all_token_fits().back();
  return fastest;
}

}  // namespace kvasir
