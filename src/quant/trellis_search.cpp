// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

namespace {

using Lanes = int16_t __attribute__((vector_size(16), may_alias));
using Wide = int32_t __attribute__((vector_size(32)));

inline Lanes high_product(Lanes a, Lanes b) {
  const Wide product = __builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide);
  return __builtin_convertvector(product >> 16, Lanes);
}

}  // namespace

#include "quant/trellis_viterbi.h"

namespace kvasir {

void search_trellis(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                    int16_t* cost, uint16_t* choices, uint8_t* codes) {
  search_with<Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
}

}  // namespace kvasir
