// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A query as the codes and the stored vectors want it. With p = `plain` and m the mean,
//
//   <p, x> = <p, m> + share <m, x - m> + <p - share m, x - m>,   share = <p, m> / |m|^2
//
// of which only the last product is estimated: factor * scale_v * (integer dot of block_dots). l2 has p = q - m and
// -|q - x|^2 = 2 <p, x - m> - |p|^2 - |x - m|^2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vector/index_impl.h"

namespace kvasir {

struct PreparedQuery {
  std::vector<float> plain;   // [dim]: q; cosine: q / |q|; l2: q - mean
  std::vector<int8_t> value;  // [channels], the rotated query in steps of `step`
  int32_t sum = 0;            // of value
  float factor = 0.0f;        // of an integer dot with levels, times 2 for l2
  float share = 0.0f;         // of <m, x - m>, times 2 for l2
  float constant = 0.0f;      // <plain, mean>; l2: -|plain|^2
  float mean_product = 0.0f;  // <plain, mean>
};

// query [dim], finite, of a length that was checked.
PreparedQuery prepare_query(const VectorIndexImpl& index, const float* query);

}  // namespace kvasir
