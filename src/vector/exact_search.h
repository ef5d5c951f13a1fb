// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Search over plain floats, and how close another search comes to it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvasir/vector.h"

namespace kvasir {

using HitLists = std::vector<std::vector<VectorHit>>;  // one list a query, best first

// base [n, dim], ids are row numbers; queries [m, dim]. Scores as VectorIndex's, in floats.
HitLists exact_search(std::span<const float> base, std::span<const float> queries, int dim, VectorMetric metric, int k,
                      int threads);

// Both over as many queries as `exact`; 0 .. 1.
// recall 1@k: the share of queries whose nearest vector is among the first k found.
double recall_of_nearest(const HitLists& exact, const HitLists& found, int k);
// recall k@k: the share of the true first k among the first k found.
double recall(const HitLists& exact, const HitLists& found, int k);

}  // namespace kvasir
