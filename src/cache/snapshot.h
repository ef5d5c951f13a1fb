// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What is in a snapshot's sections, behind kvasir/session.h:
//
//   pages.<layer>   each list of pages (page_lists below), head by head, oldest first; a page at a multiple of 64
//   windows         16-bit rows, layer by layer and head by head: sink K, sink V, recent K, recent V; live rows only
//   positions       of kept tokens, layer by layer and head by head
//   orders          channel orders, layer by layer and head by head: keys, values; of heads that are "sorted", where a
//                   codec has them
//   tokens, data    of the SequenceRecord
//
// The header's content is the identity (cache/snapshot_identity.h), "length", and for each layer its counters, how
// many tokens each head has kept and how many pages in each list.
#pragma once

#include <string>
#include <vector>

#include "cache/cache_impl.h"

namespace kvasir {

inline constexpr size_t kSnapshotPageAlignment = 64;
// What a reader has to know of, where a sequence has any.
inline constexpr const char* kKeptTokens = "kept tokens";

// Page lists of one kind, one per KV head. A layer's page section holds all of them, kind by kind.
struct PageLists {
  const char* name;  // in the header
  std::vector<std::vector<PageRef>*> heads;
};
inline std::vector<PageLists> page_lists(LayerState& state) {
  PageLists kept{"kept", {}}, pages{"pages", {}};
  for (KeptTokens& tokens : state.kept) kept.heads.push_back(&tokens.pages);
  for (auto& list : state.pages) pages.heads.push_back(&list);
  return {kept, pages};
}

inline std::string page_section(size_t layer) {
  return "pages." + std::to_string(layer);
}

// Live rows of a layer's windows.
inline WindowRows live_rows(const LayerState& state, const CacheOptions& options) {
  return {int(std::min<int64_t>(state.length, options.sink)),
          int(std::max<int64_t>(0, state.length - state.packed_end()))};
}

// Calls `rows(data, values)` for every run of 16-bit rows of a layer, in the order of the section.
template <typename Rows>
void each_window_run(LayerState& state, int kv_heads, const WindowRows& live, Rows rows) {
  if (live == WindowRows{}) return;
  for (int head = 0; head < kv_heads; ++head) {
    for (Side side : {Side::key, Side::value})
      rows(state.window.sink(side, head), size_t(live.sink) * size_t(state.window.dim(side)));
    for (Side side : {Side::key, Side::value})
      rows(state.window.recent(side, head), size_t(live.recent) * size_t(state.window.dim(side)));
  }
}

}  // namespace kvasir
