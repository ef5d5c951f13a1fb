// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "vector/prepared_query.h"
#include "vector/top_hits.h"

namespace kvasir {

// The candidates with scores of the stored vectors, best first.
std::vector<Candidate> rescored(const VectorIndexImpl& index, const PreparedQuery& query,
                                std::vector<Candidate> candidates);

}  // namespace kvasir
