// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How much some queries look at each cached token of a KV head: the score by which EpiCache, SnapKV, KVzip and
// InfiniPot choose what to keep.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvasir/attention.h"

namespace kvasir {

// How the attention that one token gets from several queries becomes one number.
enum class ScoreReduction {
  most,  // max over queries and query heads of the group (EpiCache, arXiv 2509.17396 Eq. 3)
  mean,  // mean over both (SnapKV, arXiv 2404.14469)
};

// Attention that the tokens of one KV head get from queries, gathered over any number of calls:
//   score[i] = reduce over (query t, query head g) of softmax_i(cap(scale q[g,t] . k[i]))
// in floats, the softmax over these tokens alone, those at positions behind the query's masked. The queries' own
// tokens count only where they are among the keys.
class AttentionScores {
 public:
  // `keys` [positions, layer.key_dim]. Sliding windows of the layer hide what they hide.
  AttentionScores(const LayerGeometry& layer, std::vector<int32_t> positions, std::span<const float> keys,
                  ScoreReduction reduction);

  // Queries [tokens, layer.heads, key_dim] of consecutive positions from `first` on; of KV head `head` those of its
  // group are read. The result doesn't depend on the number of threads.
  void add(const HeadsView& q, int head, int tokens, int64_t first, const AttentionOptions& options);

  const std::vector<int32_t>& positions() const { return positions_; }
  // In [0, 1] each; 0 where no query has seen the token.
  std::vector<float> scores() const;

 private:
  struct Rows {
    std::vector<float> q;  // [rows, key_dim], scaled
    std::vector<int64_t> positions;
  };
  // One value a token: log of the highest share, or the sum of shares.
  std::vector<float> reduce(const Rows& rows, SimdLevel simd) const;

  const LayerGeometry& layer_;
  ScoreReduction reduction_;
  std::vector<int32_t> positions_;
  std::vector<float> tiles_;     // keys as the kernels want them: [tiles][key_dim][64]
  std::vector<float> most_log_;  // ScoreReduction::most: log of the highest share
  std::vector<double> sum_;      // ScoreReduction::mean
  int64_t rows_ = 0;
};

}  // namespace kvasir
