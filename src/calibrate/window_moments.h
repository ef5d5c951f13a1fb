// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One window of text in one layer on its way into the moments: keys and values are kept until the window is over, since
// only then is it known how much attention each token got.
#pragma once

#include <vector>

#include "attention/kernels.h"
#include "calibrate/moments.h"
#include "kvasir/attention.h"

namespace kvasir {

class WindowMoments {
 public:
  // `window`: most tokens. The first `sink` don't count, neither as keys nor as queries: the first tokens of a text are
  // unlike the rest, and a 16-bit window keeps them anyway, as it keeps the `recent` tokens up to each query. Attention
  // to both is computed, so the rest gets what is left. Where keys are summed without their turning mean, the very
  // first has one of its own: at least it must not count.
  WindowMoments(const LayerGeometry& geometry, int window, int sink, int recent);

  // The next rows, in order. Sums don't depend on the number of threads.
  void add(const AttentionRows& rows, int threads);
  // Adds the window to the moments and starts the next. `turning`: the window began at position 0 and keys are summed
  // without their turning mean, which the first window decides.
  void finish(LayerMoments& moments, int threads, bool turning = false);

 private:
  struct Head {
    std::vector<float> keys, values;                    // [tokens, dim]
    std::vector<float> key_tiles;                       // [tokens / 64][key_dim][64]
    std::vector<double> attention, squares;             // [tokens]
    std::vector<double> query, attended_query, output;  // sums over this window's queries
  };
  void add_head(const AttentionRows& rows, int head);
  // m_q of the rows' queries.
  std::vector<double> attend(const AttentionRows& rows, int head, int query_head);
  // Keys [tokens, key_dim] of a window that begins at position 0, turned back to it: their mean behind the sinks.
  std::vector<float> turned_back_mean(const Rotary& rotary, const Head& head) const;
  void add_first_keys(LayerMoments& moments) const;
  void finish_head(HeadMoments& moments, int head, const TurningMean* mean) const;

  const LayerGeometry& geometry_;
  const Kernels& kernels_;
  const int sink_, recent_;
  int tokens_ = 0;
  std::vector<Head> heads_;
};

}  // namespace kvasir
