// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cache/kept_tokens.h"
#include "cache/layer_codecs.h"
#include "cache/page.h"

namespace kvasir {

// What one block of queries of one KV head attends to: runs of tokens in absolute order.
struct HeadView {
  const LayerGeometry* layer = nullptr;
  const LayerCodecs* codecs = nullptr;
  int head = 0;  // KV head

  const uint16_t* sink_k = nullptr;  // positions [0, sink_tokens)
  const uint16_t* sink_v = nullptr;
  int sink_tokens = 0;

  const KeptTokens* kept = nullptr;  // behind the sinks, before the pages; null: none

  const PageRef* pages = nullptr;  // page i covers pages_start + 64 i ...
  int64_t pages_start = 0;
  int page_count = 0;

  const uint16_t* recent_k = nullptr;  // positions [recent_start, recent_end)
  const uint16_t* recent_v = nullptr;
  int64_t recent_start = 0;
  int64_t recent_end = 0;

  // Slices count kept pages first, then the contiguous ones.
  int kept_pages() const { return kept ? int(kept->pages.size()) : 0; }
  int all_pages() const { return kept_pages() + page_count; }
  const std::byte* page(int index) const {
    return index < kept_pages() ? kept->pages[size_t(index)].bytes() : pages[index - kept_pages()].bytes();
  }
  RowPositions positions_of(int index) const {
    if (index >= kept_pages()) return {pages_start + int64_t(index - kept_pages()) * kPageTokens};
    return kept->rows_of(index);
  }
};

// Query tokens of consecutive positions, all query heads of the KV head.
struct QueryBlock {
  const float* q = nullptr;  // first token, first query head of the group
  int64_t token_stride = 0, head_stride = 0;
  int64_t position = 0;  // of the first token
  int tokens = 0;
  float* out = nullptr;  // first token, first query head of the group
  int64_t out_token_stride = 0;

  // Row r is token r / group, query head r % group.
  const float* row(int r, int group) const { return q + (r / group) * token_stride + (r % group) * head_stride; }
  float* out_row(int r, int group, int value_dim) const {
    return out + (r / group) * out_token_stride + (r % group) * value_dim;
  }
};

// First position a query at `position` sees.
inline int64_t first_visible(const LayerGeometry& layer, int64_t position) {
  return layer.window > 0 && position >= layer.window ? position - layer.window + 1 : 0;
}

// The definition: everything decoded, one softmax a row, all in double. (attention/reference.cpp)
void attend_reference(const HeadView& view, const QueryBlock& block);

}  // namespace kvasir
