// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/top_hits.h"

#include <algorithm>

namespace kvasir {

void TopHits::shrink() {
  if (kept_.size() <= k_) return;
  const auto last = kept_.begin() + ptrdiff_t(k_) - 1;
  std::nth_element(kept_.begin(), last, kept_.end(), [](const auto& a, const auto& b) { return a.before(b); });
  kept_.resize(k_);
  threshold_ = kept_.back().score;
}

std::vector<Candidate> TopHits::sorted() {
  shrink();
  std::sort(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) { return a.before(b); });
  return kept_;
}

}  // namespace kvasir
