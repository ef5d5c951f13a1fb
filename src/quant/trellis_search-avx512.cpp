// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>

namespace {

using Lanes = int16_t __attribute__((vector_size(64), may_alias));

inline Lanes high_product(Lanes a, Lanes b) {
  return (Lanes)_mm512_mulhi_epi16((__m512i)a, (__m512i)b);
}

}  // namespace

#include "quant/trellis_viterbi.h"

namespace kvasir::avx512 {

void search_trellis(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                    int16_t* cost, uint16_t* choices, uint8_t* codes) {
  search_with<Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
}

}  // namespace kvasir::avx512
