// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The paper's figure 5 in small: the nearest of 5,000 vectors of 1,536 by their codes alone. `kvasir vector bench` does
// it at full size. Everything is seeded, so the recalls are numbers, not samples.
#include <gtest/gtest.h>

#include "kvasir/vector.h"
#include "vector/clustered_vectors.h"
#include "vector/exact_search.h"

namespace kvasir {
namespace {

TEST(Recall, OfEmbeddings) {
  ClusteredVectors data;
  data.clusters = 50;
  const std::vector<float> base = clustered_vectors(data, 0, 5000, 2), queries = clustered_vectors(data, 5000, 200, 2);
  const HitLists exact = exact_search(base, queries, data.dim, VectorMetric::inner_product, 64, 2);
  double before = 0;
  const double nearest_first[] = {0, 0.60, 0.80, 0.88, 0.90}, nearest_in_eight[] = {0, 0.97, 0.995, 1, 1};
  for (int bits = 1; bits <= 4; ++bits) {
    VectorIndex index({.dim = data.dim, .bits = bits});
    index.add(base, {}, 2);
    const HitLists found = index.search(queries, 64, {0, 2});
    EXPECT_GE(recall_of_nearest(exact, found, 1), nearest_first[bits]) << bits;
    EXPECT_GE(recall_of_nearest(exact, found, 8), nearest_in_eight[bits]) << bits;
    EXPECT_GT(recall(exact, found, 10), before) << bits;
    before = recall(exact, found, 10);
    RecordProperty("recall_at_1_" + std::to_string(bits), std::to_string(recall_of_nearest(exact, found, 1)));
  }
}

}  // namespace
}  // namespace kvasir
