// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Our side of `bench attention`: one layer's cache, filled without attending, and single decode steps over it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvasir/attention.h"
#include "kvasir/cache.h"

namespace kvasir::cli {

// One layer's input for `tokens` tokens and one query, [tokens, kv_heads, dim] and [heads, dim].
struct LayerInput {
  LayerGeometry layer;
  int64_t tokens = 0;
  std::vector<float> k, v, q;
};

// Independent Gaussian values of deviation 1.
LayerInput gaussian_input(const LayerGeometry& layer, int64_t tokens, uint64_t seed);

// Attention of the query over all tokens in plain doubles: what every method approximates. [heads, value_dim].
std::vector<double> exact_attention(const LayerInput& input);

class FilledCache {
 public:
  // `copies` sequences that hold all tokens of `input` but the last, each encoded into pages of its own.
  FilledCache(const LayerInput& input, const CacheOptions& options, int copies);

  // One decode step: the last token enters the cache of that copy and the query attends over all. The cache keeps it
  // until `undo`.
  void step(int copy, std::span<float> out, const AttentionOptions& options);
  void undo(int copy);
  // The double-precision path over the same pages; leaves the copy as it was.
  std::vector<float> reference(int copy, const AttentionOptions& options);

  const Cache& cache() const { return cache_; }
  size_t bytes() { return cache_.size(sequences_[0]).total(); }  // of one copy

 private:
  void attend_last(SequenceId sequence, std::span<float> out, const AttentionOptions& options);

  const LayerInput& input_;
  Cache cache_;
  std::vector<SequenceId> sequences_;
};

}  // namespace kvasir::cli
