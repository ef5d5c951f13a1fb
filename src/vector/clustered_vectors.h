// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Synthetic embeddings: a mixture of Gaussians on the sphere.
//
//   x = z / |z|,   z = R (sqrt(1 - spread) center_c + sqrt(spread) noise),   c uniform over `clusters`
//
// Centers and noise have independent normal channels of variance proportional to (channel + 1)^-decay: real embeddings
// are far from isotropic, and 1 / i is about how their principal components fall. R is a fixed rotation, so that no
// method may profit from the channels' order. decay 0 makes isotropic clusters, whose members are all about equally far
// apart in high dimensions: the hardest data there is. Queries are further draws.
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir {

struct ClusteredVectors {
  int dim = 1536;
  int clusters = 1000;
  double spread = 0.5;  // 0 .. 1
  double decay = 1.0;   // >= 0
  uint64_t seed = 1;
};

// Rows [first, first + count) of the endless list that the options describe, [count, dim].
std::vector<float> clustered_vectors(const ClusteredVectors& options, int64_t first, int64_t count, int threads);

}  // namespace kvasir
