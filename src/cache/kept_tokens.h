// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/page.h"
#include "codec/page_layout.h"

namespace kvasir {

// What selection left of the tokens between the sinks and the contiguous pages of one KV head: pages of 64 tokens with
// their positions written out, the last page part full (its other rows repeat tokens that are there, and are masked).
struct KeptTokens {
  std::vector<int32_t> positions;  // ascending
  std::vector<PageRef> pages;      // pages_for(positions.size())

  int tokens() const { return int(positions.size()); }
  // Tokens of page `page` that count.
  int tokens_of(int page) const { return page + 1 < int(pages.size()) ? kPageTokens : tokens() - page * kPageTokens; }
  std::span<const int32_t> positions_of(int page) const {
    return std::span(positions).subspan(size_t(page) * kPageTokens, static_cast<size_t>(tokens_of(page)));
  }
  RowPositions rows_of(int page) const { return {0, positions_of(page).data(), tokens_of(page)}; }
};

inline int64_t pages_for(int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace kvasir
