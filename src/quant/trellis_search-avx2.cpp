// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>

namespace {

using Lanes = int16_t __attribute__((vector_size(32), may_alias));

inline Lanes high_product(Lanes a, Lanes b) {
  return (Lanes)_mm256_mulhi_epi16((__m256i)a, (__m256i)b);
}

}  // namespace

#include "quant/trellis_viterbi.h"

namespace kvasir::avx2 {

void search_trellis(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                    int16_t* cost, uint16_t* choices, uint8_t* codes) {
  search_with<Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
}

}  // namespace kvasir::avx2
