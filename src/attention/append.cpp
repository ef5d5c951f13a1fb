// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/append.h"

#include <algorithm>
#include <cstring>

#include "codec/half_rows.h"
#include "codec/page_codec.h"

namespace kvasir {

SpanAppend::SpanAppend(CacheImpl& cache, int layer, const SequenceSpan& span)
    : cache_(cache),
      geometry_(cache.geometry.layers[size_t(layer)]),
      codecs_(cache.codecs[size_t(layer)]),
      state_(cache.sequence(span.sequence).layers[size_t(layer)]),
      span_(span),
      layer_(layer),
      start_(state_.length),
      end_(state_.length + span.count),
      rows_start_(state_.packed_end()),
      in_window_(start_ / kPageTokens == (end_ - 1) / kPageTokens),
      rows_(in_window_ ? 0 : size_t(geometry_.kv_heads)),
      nonfinite_(size_t(geometry_.kv_heads), 0) {
  const int64_t boundary = packed_boundary(end_ - 1, state_.first, cache.options.recent);
  new_pages_ = int(std::max<int64_t>(0, boundary - rows_start_) / kPageTokens);
  const WindowRows rows = window_rows(cache.options, end_);
  cache.pool.require(size_t(new_pages_) * size_t(geometry_.kv_heads) * codecs_.page_bytes() +
                     state_.window.growth(rows));
  state_.window.grow(rows);
  try {
    for (auto& pages : state_.pages)
      for (int i = 0; i < new_pages_; ++i) pages.push_back(PageRef::allocate(cache.pool, codecs_.page_bytes()));
  } catch (...) {  // the system itself is out of memory
    drop_new_pages();
    throw;
  }
  offset_ratio_.assign(size_t(geometry_.kv_heads) * size_t(new_pages_), 0.0f);
}

SpanAppend::~SpanAppend() {
  if (!committed_) drop_new_pages();
}

void SpanAppend::drop_new_pages() {
  for (auto& pages : state_.pages) pages.resize(size_t(state_.packed_pages - state_.dropped_pages));
  for (int head = 0; head < geometry_.kv_heads; ++head)
    if (!state_.has_pages(head)) state_.forget_order(head);
}

void SpanAppend::convert(Side side, int head, const HeadsView& from, uint16_t* sink, uint16_t* recent,
                         int64_t recent_start) {
  const int64_t dim = state_.window.dim(side);
  for (int i = 0; i < span_.count; ++i) {
    const int64_t position = start_ + i;
    const float* x = from.data + (span_.first + i) * from.token_stride + head * from.head_stride;
    uint16_t* to = position < cache_.options.sink ? sink + position * dim : recent + (position - recent_start) * dim;
    nonfinite_[size_t(head)] += store_halves(kind(side), x, size_t(dim), to);
  }
}

void SpanAppend::gather(int head, const HeadsView& k, const HeadsView& v) {
  if (!in_window_) lay_side_by_side(head, k, v);
  if (state_.has_pages(head) || new_pages_ == 0) return;
  state_.key_order[size_t(head)] = loudest_channels(codecs_.key, page_rows(Side::key, head, 0).data());
  state_.value_order[size_t(head)] = loudest_channels(codecs_.value, page_rows(Side::value, head, 0).data());
}

void SpanAppend::lay_side_by_side(int head, const HeadsView& k, const HeadsView& v) {
  Rows& rows = rows_[size_t(head)];
  const auto side = [&](Side which, const HeadsView& from, std::vector<uint16_t>& sink, std::vector<uint16_t>& recent) {
    const int64_t dim = state_.window.dim(which), sink_tokens = cache_.options.sink;
    sink.resize(size_t(std::min<int64_t>(sink_tokens, end_) * dim));
    recent.resize(size_t(std::max<int64_t>(0, end_ - rows_start_) * dim));
    std::copy_n(state_.window.sink(which, head), std::min(sink_tokens, start_) * dim, sink.data());
    std::copy_n(state_.window.recent(which, head), std::max<int64_t>(0, start_ - rows_start_) * dim, recent.data());
    convert(which, head, from, sink.data(), recent.data(), rows_start_);
  };
  side(Side::key, k, rows.sink_k, rows.k);
  side(Side::value, v, rows.sink_v, rows.v);
}

// The rows of new page `page`. Tokens to pack always precede the block being appended, so the window holds them whole.
std::vector<float> SpanAppend::page_rows(Side side, int head, int page) const {
  const uint16_t* from = in_window_ ? state_.window.recent(side, head)
                                    : (side == Side::key ? rows_[size_t(head)].k : rows_[size_t(head)].v).data();
  const size_t count = size_t(kPageTokens) * size_t(state_.window.dim(side));
  std::vector<float> x(count);
  load_halves(kind(side), from + size_t(page) * count, count, x.data());
  return x;
}

void SpanAppend::pack(int head, int page) {
  auto& pages = state_.pages[size_t(head)];
  std::byte* bytes = pages[pages.size() - size_t(new_pages_) + size_t(page)].bytes();
  const auto side = [&](Side which, const SideLayout& layout, std::byte* to) {
    std::vector<float> x = page_rows(which, head, page);
    const float ratio = which == Side::key ? offset_ratio(layout.dim(), x.data()) : 0.0f;
    if (layout.turning) layout.turning->remove(head, {rows_start_ + int64_t(page) * kPageTokens}, x.data());
    encode_page(layout, head, (which == Side::key ? state_.key_order : state_.value_order)[size_t(head)], x.data(), to);
    if (which == Side::key) offset_ratio_[size_t(head * new_pages_ + page)] = ratio;
  };
  side(Side::key, codecs_.key, bytes);
  side(Side::value, codecs_.value, bytes + codecs_.key.bytes);
}

void SpanAppend::settle(int head, const HeadsView& k, const HeadsView& v) {
  if (!in_window_) return;
  for (Side side : {Side::key, Side::value}) {
    uint16_t* recent = state_.window.recent(side, head);
    const int64_t dim = state_.window.dim(side);
    if (new_pages_ > 0)
      std::memmove(recent, recent + (packed_end() - rows_start_) * dim, 2 * size_t((start_ - packed_end()) * dim));
    convert(side, head, side == Side::key ? k : v, state_.window.sink(side, head), recent, packed_end());
  }
}

HeadView SpanAppend::view(int head, int64_t block_start) const {
  const CacheOptions& options = cache_.options;
  HeadView view;
  view.layer = &geometry_;
  view.codecs = &codecs_;
  view.head = head;
  view.sink_tokens = int(std::min<int64_t>(options.sink, end_));
  view.kept = &state_.kept[size_t(head)];
  view.pages = state_.pages[size_t(head)].data();
  view.pages_start = state_.first + state_.dropped_pages * kPageTokens;
  // Never below what was packed before: a block that was begun earlier has the same boundary.
  const int64_t boundary = std::max(packed_boundary(block_start, state_.first, options.recent), rows_start_);
  view.page_count = int((boundary - view.pages_start) / kPageTokens);
  view.recent_start = boundary;
  view.recent_end = std::max(boundary, std::min(end_, block_start + kPageTokens));
  if (in_window_) {
    view.sink_k = state_.window.sink(Side::key, head);
    view.sink_v = state_.window.sink(Side::value, head);
    view.recent_k = state_.window.recent(Side::key, head);
    view.recent_v = state_.window.recent(Side::value, head);
  } else {
    const Rows& rows = rows_[size_t(head)];
    view.sink_k = rows.sink_k.data();
    view.sink_v = rows.sink_v.data();
    view.recent_k = rows.k.data() + (boundary - rows_start_) * geometry_.key_dim;
    view.recent_v = rows.v.data() + (boundary - rows_start_) * geometry_.value_dim;
  }
  return view;
}

// A sliding window passes over kept tokens as over pages: whole ones go.
void SpanAppend::drop_unseen_kept() {
  if (geometry_.window == 0) return;
  const int64_t oldest = first_visible(geometry_, (end_ - 1) / kPageTokens * kPageTokens);
  for (KeptTokens& kept : state_.kept) {
    size_t unseen = 0;
    while (unseen < kept.pages.size() &&
           kept.positions[std::min(kept.positions.size(), (unseen + 1) * kPageTokens) - 1] < oldest)
      ++unseen;
    kept.pages.erase(kept.pages.begin(), kept.pages.begin() + int64_t(unseen));
    kept.positions.erase(kept.positions.begin(),
                         kept.positions.begin() + int64_t(std::min(kept.positions.size(), unseen * kPageTokens)));
  }
}

void SpanAppend::commit() {
  for (size_t h = 0; h < rows_.size(); ++h) {
    const auto keep = [&](Side side, const std::vector<uint16_t>& sink, const std::vector<uint16_t>& recent) {
      std::copy(sink.begin(), sink.end(), state_.window.sink(side, int(h)));
      const int64_t skip = (packed_end() - rows_start_) * state_.window.dim(side);
      if (skip < int64_t(recent.size()))
        std::copy(recent.begin() + skip, recent.end(), state_.window.recent(side, int(h)));
    };
    keep(Side::key, rows_[h].sink_k, rows_[h].k);
    keep(Side::value, rows_[h].sink_v, rows_[h].v);
  }
  state_.packed_pages += new_pages_;
  state_.length = end_;
  committed_ = true;
  const int64_t dropped =
      page_count(geometry_, state_.first, cache_.options.recent, end_).dropped - state_.dropped_pages;
  if (dropped > 0) {
    for (auto& pages : state_.pages) pages.erase(pages.begin(), pages.begin() + dropped);
    state_.dropped_pages += dropped;
  }
  drop_unseen_kept();
  for (uint64_t count : nonfinite_) cache_.stats.nonfinite += count;
  cache_.stats.pages_packed += uint64_t(new_pages_) * state_.pages.size();
  float& worst = cache_.stats.key_offset_ratio[size_t(layer_)];
  for (float ratio : offset_ratio_) worst = std::max(worst, ratio);
}

}  // namespace kvasir
