// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

// Tokens per KV head for each layer, `budget` on average (EpiCache, arXiv 2509.17396 Eq. 10):
//   M_l = max(floor * budget, c (1 - similarity_l)^alpha),  sum of M_l = layers * budget exactly,
// c found by water-filling, fractions settled by largest remainder (the earlier layer on ties). `similarity`: mean
// cosine between a layer's keys with the whole past and with a past cut into blocks, -1 to 1; with alpha 0, or where
// all layers are equal, the budgets are uniform. The paper has no floor; without one alpha >= 4 starves layers.
// Throws Error invalid_argument: no layers, budget < 1, alpha outside [0, 100], floor outside [0, 1], similarities that are none.
std::vector<int64_t> layer_budgets(std::span<const double> similarity, int64_t budget, double alpha,
                                   double floor = 0.25);

}  // namespace kvasir
