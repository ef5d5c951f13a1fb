// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

struct KmeansOptions {
  int clusters = 4;
  uint64_t seed = 42;
  int starts = 10;           // n_init: the tightest of so many runs wins
  int max_iterations = 300;  // Lloyd's
  double tolerance = 1e-4;   // of the squared shift of all centroids, in units of the points' mean variance
  int threads = 1;           // of time only: the result is the same for any number
};

struct Clusters {
  std::vector<std::vector<float>> centroids;  // [clusters, dims]: the plain mean of the members
  std::vector<int> labels;                    // of each point; clusters are numbered as they first appear
  double inertia = 0;                         // sum of the squared distances to the centroids
};

// k-means, Euclidean, each run begun by k-means++ with the best of a few candidates a step (Arthur and Vassilvitskii,
// 2007). No cluster is empty: one that would be takes the farthest point, and where there are fewer distinct points
// than clusters, each distinct point is a cluster. Of more than 16,384 points, the starts are tried on a sample
// and the winner goes on with all, so the time grows with the number of points, not ten times as fast. No points give
// no clusters. Throws Error invalid_argument for points of unequal length, NaN or infinities, and clusters or starts
// < 1.
Clusters kmeans(std::span<const std::vector<float>> points, const KmeansOptions& options = {});

}  // namespace kvasir
