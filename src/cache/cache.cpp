// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "kvasir/cache.h"

#include <algorithm>

#include "cache/cache_impl.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

SequenceState fresh_sequence(CacheImpl& impl) {
  SequenceState state;
  for (const LayerGeometry& layer : impl.geometry.layers) {
    state.layers.emplace_back(Window(impl.pool, layer), layer.kv_heads, impl.options.sink);
  }
  return state;
}

// Whether the layer can be cut to `tokens` and go on as if it had never been longer.
bool exact_at(const CacheImpl& impl, size_t index, const LayerState& state, int64_t tokens) {
  if (tokens >= state.length) return true;
  const CacheOptions& options = impl.options;
  if (state.first > options.sink && tokens < state.first) return false;
  if (state.packed_end() > packed_boundary(tokens, state.first, options.recent)) return false;
  const int window = impl.geometry.layers[index].window;
  return window == 0 ||
         state.first + state.dropped_pages * kPageTokens <= std::max<int64_t>(tokens - window + 1, state.first);
}

void cut(LayerState& state, int sink, int64_t tokens, bool keep_pages) {
  state.length = std::min(state.length, tokens);
  if (keep_pages) return;
  state.packed_pages = state.dropped_pages = 0;
  state.first = sink;
  for (KeptTokens& kept : state.kept) kept = {};
  for (int head = 0; head < int(state.pages.size()); ++head) state.forget_order(head);
  for (auto& pages : state.pages) pages.clear();
}

void add_layer_size(const CacheImpl& impl, size_t index, const LayerState& state, CacheSize& size) {
  const LayerGeometry& layer = impl.geometry.layers[index];
  const auto add = [&](const std::vector<PageRef>& pages) {
    for (const PageRef& page : pages) (page.mapped() ? size.mapped : size.pages) += impl.codecs[index].page_bytes();
  };
  for (const auto& pages : state.pages) add(pages);
  for (const KeptTokens& kept : state.kept) add(kept.pages);
  size.windows += state.window.bytes();
  const int64_t seen = layer.window > 0 ? std::min<int64_t>(state.length, layer.window) : state.length;
  size.bytes_f16 += 2 * size_t(seen) * size_t(layer.kv_heads) * size_t(layer.key_dim + layer.value_dim);
}

}  // namespace

CacheImpl::CacheImpl(Geometry geometry_in, CacheOptions options_in)
    : geometry(std::move(geometry_in)),
      options(std::move(options_in)),
      codecs(resolve_codecs(geometry, options)),
      pool(options.budget) {
  stats.key_offset_ratio.assign(geometry.layers.size(), 0.0f);
}

SequenceState& CacheImpl::sequence(SequenceId id) {
  const auto found = sequences.find(id);
  if (found == sequences.end())
    throw Error(ErrorCode::invalid_argument, "no sequence " + std::to_string(id) + " in this cache");
  return found->second;
}

Cache::Cache(Geometry geometry, CacheOptions options)
    : impl_(std::make_unique<CacheImpl>(std::move(geometry), std::move(options))) {}
Cache::~Cache() = default;
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;

SequenceId Cache::create() {
  impl_->sequences.emplace(impl_->next_id, fresh_sequence(*impl_));
  return impl_->next_id++;
}

SequenceId Cache::fork(SequenceId source) {
  const SequenceState& from = impl_->sequence(source);
  size_t bytes = 0;
  for (const LayerState& layer : from.layers) bytes += layer.window.bytes();
  impl_->pool.require(bytes);
  SequenceState copy;
  for (const LayerState& layer : from.layers) {
    LayerState& state = copy.layers.emplace_back(layer.window.clone(), int(layer.pages.size()), layer.first);
    state.length = layer.length;
    state.packed_pages = layer.packed_pages;
    state.dropped_pages = layer.dropped_pages;
    state.kept = layer.kept;
    state.pages = layer.pages;
    state.key_order = layer.key_order;
    state.value_order = layer.value_order;
  }
  impl_->sequences.emplace(impl_->next_id, std::move(copy));
  return impl_->next_id++;
}

void Cache::remove(SequenceId id) {
  impl_->sequence(id);
  impl_->sequences.erase(id);
}

int64_t Cache::truncate(SequenceId id, int64_t tokens) {
  SequenceState& state = impl_->sequence(id);
  if (tokens < 0) throw Error(ErrorCode::invalid_argument, "can't truncate to " + std::to_string(tokens) + " tokens");
  bool exact = true;
  for (size_t i = 0; i < state.layers.size(); ++i) exact = exact && exact_at(*impl_, i, state.layers[i], tokens);
  const int64_t kept = exact ? tokens : std::min<int64_t>(tokens, impl_->options.sink);
  for (LayerState& layer : state.layers) cut(layer, impl_->options.sink, kept, exact);
  return length(id);
}

int64_t Cache::length(SequenceId id) const {
  return impl_->sequence(id).layers.back().length;
}
const Geometry& Cache::geometry() const {
  return impl_->geometry;
}
const CacheOptions& Cache::options() const {
  return impl_->options;
}

const Codec& Cache::codec(int layer, Side side) const {
  const LayerCodecs& codecs = impl_->codecs.at(size_t(layer));
  return side == Side::key ? codecs.key.codec : codecs.value.codec;
}

void Cache::reserve(std::span<const Growth> growth) {
  size_t bytes = 0;
  for (const Growth& one : growth) {
    const SequenceState& state = impl_->sequence(one.sequence);
    for (size_t i = 0; i < state.layers.size(); ++i) {
      const LayerGeometry& layer = impl_->geometry.layers[i];
      const int64_t length = state.layers[i].length + one.tokens;
      // New pages are allocated before old ones of a sliding window are dropped, so drops don't count here.
      bytes += state.layers[i].window.growth(window_rows(impl_->options, length));
      const PageCount after = page_count(layer, state.layers[i].first, impl_->options.recent, length);
      const int64_t fresh = std::max<int64_t>(0, after.packed - std::max(state.layers[i].packed_pages, after.dropped));
      bytes += size_t(fresh) * size_t(layer.kv_heads) * impl_->codecs[i].page_bytes();
    }
  }
  impl_->pool.require(bytes);
}

void Cache::reserve(SequenceId sequence, int64_t tokens) {
  const Growth growth{sequence, tokens};
  reserve({&growth, 1});
}

CacheSize Cache::size() const {
  CacheSize size;
  for (const auto& [id, state] : impl_->sequences)
    for (size_t i = 0; i < state.layers.size(); ++i) add_layer_size(*impl_, i, state.layers[i], size);
  size.pages = impl_->pool.used() - size.windows;  // shared pages once
  size.mapped = impl_->pool.mapped();
  return size;
}

CacheSize Cache::size(SequenceId id) const {
  CacheSize size;
  const SequenceState& state = impl_->sequence(id);
  for (size_t i = 0; i < state.layers.size(); ++i) add_layer_size(*impl_, i, state.layers[i], size);
  return size;
}

CacheStats Cache::stats() const {
  return impl_->stats;
}

std::string Cache::describe() const {
  const auto side = [](const SideLayout& layout) {
    return layout.codec.name + (layout.codec.center ? " (page mean removed)" : "");
  };
  const auto words = [&](const LayerCodecs& codecs) { return "K " + side(codecs.key) + ", V " + side(codecs.value); };
  std::string text;
  for (size_t first = 0, last = 0; first < impl_->codecs.size(); first = last + 1) {
    const std::string line = words(impl_->codecs[first]);
    last = first;
    while (last + 1 < impl_->codecs.size() && words(impl_->codecs[last + 1]) == line) ++last;
    text += "layers " + std::to_string(first) + "-" + std::to_string(last) + ": " + line + "\n";
  }
  return text;
}

}  // namespace kvasir
