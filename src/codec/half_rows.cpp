// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/half_rows.h"

#include <cmath>

#include "base/processor.h"

namespace kvasir {

size_t store_halves(HalfKind kind, const float* x, size_t count, uint16_t* out) {
#ifdef KVASIR_X86
  if (kind == HalfKind::f16 && count % 8 == 0 && processor_has_avx2() && avx2::store_f16(x, count, out)) return 0;
#endif
  const float most = kind == HalfKind::f16 ? kHalfMax : bf16_to_float(0x7f7f);
  size_t lost = 0;
  for (size_t i = 0; i < count; ++i) {
    float value = x[i];
    if (!(std::abs(value) <= most)) {  // NaN fails every comparison
      ++lost;
      value = std::isnan(value) ? 0.0f : std::copysign(most, value);
    }
    out[i] = float_to_half(kind, value);
  }
  return lost;
}

void load_halves(HalfKind kind, const uint16_t* x, size_t count, float* out) {
#ifdef KVASIR_X86
  if (kind == HalfKind::f16 && count % 8 == 0 && processor_has_avx2()) return avx2::load_f16(x, count, out);
#endif
  if (kind == HalfKind::f16) {
    for (size_t i = 0; i < count; ++i) out[i] = f16_to_float(x[i]);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = bf16_to_float(x[i]);
  }
}

}  // namespace kvasir
