// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels-avx2.h"

namespace kvasir {

static constexpr Kernels kAvx2 = {
    SimdLevel::avx2,         avx2::prepare_query, avx2::score_page, avx2::gather_page,     avx2::score_halves,
    avx2::gather_halves,     avx2::softmax_step,  avx2::key_tile,   avx2::key_tile_halves, avx2::value_tile,
    avx2::value_tile_halves, avx2::tile_scores,   avx2::tile_gather};

const Kernels& avx2_kernels() {
  return kAvx2;
}

}  // namespace kvasir
