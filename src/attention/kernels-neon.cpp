// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels-neon.h"

namespace kvasir {

static constexpr Kernels kNeon = {
    SimdLevel::neon,         neon::prepare_query, neon::score_page, neon::gather_page,     neon::score_halves,
    neon::gather_halves,     neon::softmax_step,  neon::key_tile,   neon::key_tile_halves, neon::value_tile,
    neon::value_tile_halves, neon::tile_scores,   neon::tile_gather};

const Kernels& neon_kernels() {
  return kNeon;
}

}  // namespace kvasir
