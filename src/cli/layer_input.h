// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What one layer's attention is asked in the benchmarks, and the answer in plain doubles.
#pragma once

#include <cstdint>
#include <vector>

#include "kvasir/attention.h"

namespace kvasir::cli {

// A step of attention: each of `batch` sequences holds `past` tokens, appends `block` more and asks about these. All
// sequences hold the same tokens, each asks for itself. Several sequences append one token each.
struct LayerInput {
  LayerGeometry layer;
  int64_t past = 0;
  int block = 1, batch = 1;
  std::vector<float> k, v;  // [past + block, kv_heads, dim]
  std::vector<float> q;     // [batch, block, heads, key_dim]

  int64_t tokens() const { return past + block; }
  int64_t rows() const { return int64_t(batch) * block; }
  // From that token on.
  HeadsView keys(int64_t first) const;
  HeadsView values(int64_t first) const;
  // From that row of q on.
  HeadsView queries(int64_t first_row) const;
};

// Independent Gaussian values of deviation 1.
LayerInput gaussian_input(const LayerGeometry& layer, int64_t past, int block, int batch, uint64_t seed);

// Attention of query row `row` of sequence `sequence` over all tokens up to its own: what every method approximates.
// [heads, value_dim].
std::vector<double> exact_attention(const LayerInput& input, int sequence, int row);

}  // namespace kvasir::cli
