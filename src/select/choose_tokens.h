// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

// The tokens of one KV head that may go, and what each is worth.
struct HeadScores {
  std::vector<int32_t> positions;  // ascending, sinks left out
  std::vector<float> scores;       // one each
};

struct ChoiceLimits {
  int64_t budget = 0;      // tokens that the heads keep together
  int64_t head_floor = 0;  // tokens that each head keeps at least, its own best ones (Ada-KV, arXiv 2407.11550)
  int32_t recent = 0;      // positions from here on are kept whatever they score; they count
};

// One layer's choice: per head the positions to keep, ascending. The heads share the budget: after the recent tokens
// and the floors the best scores win, whichever head they are of (EpiCache, arXiv 2509.17396). Of equal scores the
// earlier token is kept, then the lower head. Exactly min(budget, tokens there are) are kept. Throws Error:
// invalid_argument (recent tokens or floors don't fit the budget), internal (a score that is no number).
std::vector<std::vector<int32_t>> choose_tokens(std::span<const HeadScores> heads, const ChoiceLimits& limits);

}  // namespace kvasir
