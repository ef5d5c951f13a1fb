// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The write side of attention: new keys and values of one layer enter the windows, whole pages are packed. Everything
// that can fail happens in the constructor.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/head_view.h"
#include "cache/cache_impl.h"
#include "codec/channel_map.h"
#include "kvasir/attention.h"

namespace kvasir {

// One span of the batch on its way into one layer: construct, then for every head and page gather, pack, settle, then
// attend over `view`, then commit.
//
// A span inside one aligned block of 64 (every decode step) works in the window itself. A longer one first lays what
// was recent and what is new side by side, so that each of its blocks finds the past in the state that its own
// position asks for and all blocks can run at once.
class SpanAppend {
 public:
  // Allocates the pages that the span fills. Throws Error out_of_memory, nothing changed.
  SpanAppend(CacheImpl& cache, int layer, const SequenceSpan& span);
  ~SpanAppend();  // takes the new pages back unless committed
  SpanAppend(const SpanAppend&) = delete;
  SpanAppend& operator=(const SpanAppend&) = delete;

  int new_pages() const { return new_pages_; }
  // Long spans: recent rows and new rows of one KV head, side by side. Before the first page: sorts its channels.
  void gather(int head, const HeadsView& k, const HeadsView& v);
  // Packs new page `page` (0 .. new_pages()) of one KV head.
  void pack(int head, int page);
  // Short spans: drops packed rows from the window and appends the new ones.
  void settle(int head, const HeadsView& k, const HeadsView& v);

  // The past of the queries in the aligned block that starts at `block_start`, one KV head.
  HeadView view(int head, int64_t block_start) const;
  int64_t start() const { return start_; }  // position of the span's first token
  int64_t end() const { return end_; }      // one past its last
  const SequenceSpan& span() const { return span_; }

  // Makes the appended tokens part of the sequence.
  void commit();

 private:
  // Positions [0, sink_end) and [rows_start, end) of one head, where the span doesn't work in the window.
  struct Rows {
    std::vector<uint16_t> sink_k, sink_v, k, v;
  };
  // Converts the new rows of one side; `sink` starts at position 0, `recent` at `recent_start`.
  void convert(Side side, int head, const HeadsView& from, uint16_t* sink, uint16_t* recent, int64_t recent_start);
  void lay_side_by_side(int head, const HeadsView& k, const HeadsView& v);
  std::vector<float> page_rows(Side side, int head, int page) const;
  void drop_new_pages();
  void drop_unseen_kept();
  HalfKind kind(Side side) const { return side == Side::key ? codecs_.key_window() : codecs_.value_window(); }
  int64_t packed_end() const { return rows_start_ + int64_t(new_pages_) * kPageTokens; }

  CacheImpl& cache_;
  const LayerGeometry& geometry_;
  const LayerCodecs& codecs_;
  LayerState& state_;
  SequenceSpan span_;
  int layer_;
  int64_t start_, end_, rows_start_;
  int new_pages_ = 0;
  bool in_window_, committed_ = false;
  std::vector<Rows> rows_;
  std::vector<uint64_t> nonfinite_;  // per head
  std::vector<float> offset_ratio_;  // per (head, new page)
};

}  // namespace kvasir
