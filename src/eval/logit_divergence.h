// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How far the next-token distribution of a test run is from that of a base run, over the full vocabulary.
#pragma once

#include <cstdint>
#include <span>

namespace kvasir {

// One scored position.
struct LogitDivergence {
  double kld = 0;       // KL(base || test) in nats, >= 0
  double nll = 0;       // -log p_test(target)
  double nll_base = 0;  // -log p_base(target)
  bool same_top = false;
  double delta_p() const;  // p_test(target) - p_base(target)
};

// Both rows are raw logits over the same vocabulary; log-softmax and sums are in double. `target` is the token that
// follows in the text. Throws Error internal for a NaN or +Inf logit: a broken run must not look like a good one.
LogitDivergence compare_logits(std::span<const float> base, std::span<const float> test, int32_t target);

}  // namespace kvasir
