// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/kernels-avx512.h"

#include "attention/kernels-avx2.h"

namespace kvasir {

static constexpr Kernels kAvx512 = {
    SimdLevel::avx512,       avx512::prepare_query, avx512::score_page, avx512::gather_page,   avx2::score_halves,
    avx2::gather_halves,     avx512::softmax_step,  avx512::key_tile,   avx2::key_tile_halves, avx512::value_tile,
    avx2::value_tile_halves, avx512::tile_scores,   avx512::tile_gather};

const Kernels& avx512_kernels() {
  return kAvx512;
}

}  // namespace kvasir
