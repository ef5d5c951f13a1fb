// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/exact_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/vector/samples.h"
#include "vector/clustered_vectors.h"

namespace kvasir {
namespace {

double score(VectorMetric metric, const float* a, const float* b, int dim) {
  double product = 0, left = 0, right = 0;
  for (int j = 0; j < dim; ++j) {
    product += double(a[j]) * double(b[j]);
    left += double(a[j]) * double(a[j]);
    right += double(b[j]) * double(b[j]);
  }
  if (metric == VectorMetric::inner_product) return product;
  if (metric == VectorMetric::cosine) return product / std::sqrt(left * right);
  return 2 * product - left - right;
}

TEST(ExactSearch, IsASortByScore) {
  constexpr int kDim = 37;
  const std::vector<float> base = vector_test::normal_vectors(300, kDim, 1),
                           queries = vector_test::normal_vectors(70, kDim, 2);
  for (const VectorMetric metric : {VectorMetric::inner_product, VectorMetric::cosine, VectorMetric::l2}) {
    const HitLists found = exact_search(base, queries, kDim, metric, 5, 2);
    for (size_t q = 0; q < 70; ++q) {
      std::vector<std::pair<double, int64_t>> all;
      for (int64_t i = 0; i < 300; ++i)
        all.emplace_back(-score(metric, &queries[q * kDim], &base[size_t(i) * kDim], kDim), i);
      std::sort(all.begin(), all.end());
      ASSERT_EQ(found[q].size(), 5u);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(found[q][i].id, all[i].second);
        EXPECT_NEAR(found[q][i].score, -all[i].first, 1e-4);
      }
    }
  }
}

TEST(ExactSearch, Recall) {
  const HitLists exact = {{{1, 9}, {2, 8}}, {{3, 9}, {4, 8}}};
  const HitLists found = {{{2, 9}, {1, 8}}, {{3, 9}, {7, 8}}};
  EXPECT_EQ(recall_of_nearest(exact, found, 1), 0.5);
  EXPECT_EQ(recall_of_nearest(exact, found, 2), 1.0);
  EXPECT_EQ(recall(exact, found, 1), 0.5);
  EXPECT_EQ(recall(exact, found, 2), 0.75);
  EXPECT_EQ(recall(exact, found, 10), 0.75);
}

TEST(ClusteredVectors, AreWhatTheySay) {
  ClusteredVectors options;
  options.dim = 96;
  options.clusters = 10;
  const std::vector<float> rows = clustered_vectors(options, 0, 500, 1);
  EXPECT_EQ(clustered_vectors(options, 0, 500, 3), rows);
  const std::vector<float> tail = clustered_vectors(options, 300, 200, 2);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), rows.begin() + 300 * 96));
  int close = 0;
  for (int i = 0; i < 500; ++i) {
    EXPECT_NEAR(score(VectorMetric::inner_product, &rows[size_t(i) * 96], &rows[size_t(i) * 96], 96), 1.0, 1e-5);
    if (i > 0) close += score(VectorMetric::inner_product, &rows[size_t(i) * 96], rows.data(), 96) > 0.3;
  }
  // A tenth of the vectors share the first one's cluster, at a cosine of about 1 - spread.
  EXPECT_GT(close, 20);
  EXPECT_LT(close, 150);
  options.seed = 2;
  EXPECT_NE(clustered_vectors(options, 0, 500, 1), rows);
}

}  // namespace
}  // namespace kvasir
