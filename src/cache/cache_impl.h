// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The cache behind kvasir/cache.h, as attention sees it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "cache/kept_tokens.h"
#include "cache/layer_codecs.h"
#include "cache/page.h"
#include "cache/pool.h"
#include "cache/window.h"
#include "codec/channel_map.h"
#include "kvasir/cache.h"

namespace kvasir {

// One layer of one sequence.
struct LayerState {
  LayerState(Window window, int kv_heads, int64_t first)
      : first(first),
        window(std::move(window)),
        kept(size_t(kv_heads)),
        pages(size_t(kv_heads)),
        key_order(size_t(kv_heads)),
        value_order(size_t(kv_heads)) {}

  int64_t length = 0;        // tokens, those that selection dropped included
  int64_t first;             // where the contiguous pages start: S, or as far as selection has gone over the tokens
  int64_t packed_pages = 0;  // per head, dropped ones included
  int64_t dropped_pages = 0;
  Window window;
  std::vector<KeptTokens> kept;             // [kv_heads]; of [S, first)
  std::vector<std::vector<PageRef>> pages;  // [kv_heads][packed - dropped]; page i covers first + 64 (dropped + i) ...

  // What the first page of each head decided; empty before, and for codecs that don't sort channels. Kept apart
  // from the pages since a sliding window drops those.
  std::vector<ChannelOrder> key_order, value_order;
  void forget_order(int head) {
    key_order[size_t(head)].clear();
    value_order[size_t(head)].clear();
  }

  // First position that is not in a page: t_p, and where the recent window starts.
  int64_t packed_end() const { return first + packed_pages * kPageTokens; }
  // Whether a page of this head has decided about its channel order.
  bool has_pages(int head) const { return packed_pages > 0 || !kept[size_t(head)].pages.empty(); }
};

struct SequenceState {
  std::vector<LayerState> layers;
};

class CacheImpl {
 public:
  CacheImpl(Geometry geometry, CacheOptions options);

  SequenceState& sequence(SequenceId id);  // throws Error invalid_argument
  const SequenceState& sequence(SequenceId id) const { return const_cast<CacheImpl*>(this)->sequence(id); }

  const Geometry geometry;
  const CacheOptions options;
  const std::vector<LayerCodecs> codecs;  // per layer
  Pool pool;                              // before sequences: they return their slots to it
  std::map<SequenceId, SequenceState> sequences;
  SequenceId next_id = 0;
  CacheStats stats;
};

}  // namespace kvasir
