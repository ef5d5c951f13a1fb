// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Cache's selection: which tokens a head holds, their rows, and packing a choice of them anew.
#include <algorithm>
#include <numeric>

#include "cache/cache_impl.h"
#include "cache/scoped_sequence.h"
#include "codec/page_codec.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// One KV head's tokens behind the sinks that are to be packed.
struct HeadTokens {
  std::vector<int32_t> positions;
  std::vector<float> k, v;  // [positions, dim]
};

const LayerState& layer_of(const CacheImpl& impl, SequenceId sequence, int layer, int head) {
  if (layer < 0 || layer >= int(impl.geometry.layers.size()) || head < 0 ||
      head >= impl.geometry.layers[size_t(layer)].kv_heads)
    throw Error(ErrorCode::invalid_argument,
                "no KV head " + std::to_string(head) + " of layer " + std::to_string(layer) + " in this cache");
  return impl.sequence(sequence).layers[size_t(layer)];
}

int64_t held_count(const LayerState& state, int sink, int head) {
  const int64_t contiguous = state.length - state.first - state.dropped_pages * kPageTokens;
  return std::min<int64_t>(sink, state.length) + state.kept[size_t(head)].tokens() + std::max<int64_t>(0, contiguous);
}

std::vector<int32_t> held_positions(const LayerState& state, int sink, int head) {
  std::vector<int32_t> held;
  held.reserve(size_t(held_count(state, sink, head)));
  const auto run = [&](int64_t first, int64_t end) {
    for (int64_t p = first; p < end; ++p) held.push_back(int32_t(p));
  };
  run(0, std::min<int64_t>(sink, state.length));
  const std::vector<int32_t>& kept = state.kept[size_t(head)].positions;
  held.insert(held.end(), kept.begin(), kept.end());
  run(state.first + state.dropped_pages * kPageTokens, state.length);
  return held;
}

std::vector<float> held_rows(const CacheImpl& impl, int layer, const LayerState& state, int head, Side side) {
  const LayerCodecs& codecs = impl.codecs[size_t(layer)];
  const SideLayout& layout = side == Side::key ? codecs.key : codecs.value;
  const HalfKind half = side == Side::key ? codecs.key_window() : codecs.value_window();
  const size_t dim = size_t(layout.dim());
  std::vector<float> rows;
  rows.reserve(size_t(held_count(state, impl.options.sink, head)) * dim);
  const auto halves = [&](const uint16_t* from, int64_t tokens) {
    for (size_t i = 0; i < size_t(std::max<int64_t>(tokens, 0)) * dim; ++i)
      rows.push_back(half_to_float(half, from[i]));
  };
  const auto page = [&](const PageRef& ref, int tokens, const RowPositions& positions) {
    std::vector<float> decoded(kPageTokens * dim);
    decode_page(layout, head, ref.bytes() + (side == Side::key ? 0 : codecs.key.bytes), decoded.data());
    if (layout.turning) layout.turning->restore(head, positions, decoded.data());
    rows.insert(rows.end(), decoded.begin(), decoded.begin() + int64_t(size_t(tokens) * dim));
  };
  if (state.length == 0) return rows;
  halves(state.window.sink(side, head), std::min<int64_t>(impl.options.sink, state.length));
  const KeptTokens& kept = state.kept[size_t(head)];
  for (int i = 0; i < int(kept.pages.size()); ++i) page(kept.pages[size_t(i)], kept.tokens_of(i), kept.rows_of(i));
  int64_t first = state.first + state.dropped_pages * kPageTokens;
  for (const PageRef& ref : state.pages[size_t(head)]) {
    page(ref, kPageTokens, {first});
    first += kPageTokens;
  }
  halves(state.window.recent(side, head), state.length - state.packed_end());
  return rows;
}

// The rows of one page; behind the last token its rows start again, so that means and scales stay those of tokens.
std::vector<float> page_of(const std::vector<float>& rows, size_t dim, size_t page) {
  const size_t first = page * kPageTokens, tokens = std::min<size_t>(kPageTokens, rows.size() / dim - first);
  std::vector<float> x(kPageTokens * dim);
  for (size_t t = 0; t < kPageTokens; ++t)
    std::copy_n(rows.begin() + int64_t((first + t % tokens) * dim), dim, x.begin() + int64_t(t * dim));
  return x;
}

// Channel order and mean of one side's kept pages, all of which share them: a choice among these tokens can be packed
// again and again without being rounded again.
struct PageBasis {
  ChannelOrder order;
  PageMean mean;
};

PageBasis basis_of(const SideLayout& layout, int head, const std::vector<float>& rows) {
  PageBasis basis;
  const size_t dim = size_t(layout.dim());
  if (rows.empty()) return basis;
  basis.order = loudest_channels(layout, page_of(rows, dim, 0).data());
  basis.mean = mean_of(layout, head, basis.order, rows.data(), rows.size() / dim);
  return basis;
}

PageBasis basis_in(const SideLayout& layout, const std::byte* page) {
  return {channel_order(layout, page), page_mean(layout, page)};
}

// `like`: a page of the same layer and head whose basis is taken over; null: the tokens' own.
KeptTokens pack(Pool& pool, const LayerCodecs& codecs, LayerState& state, int head, HeadTokens tokens,
                const std::byte* like) {
  KeptTokens kept;
  kept.positions = std::move(tokens.positions);
  const size_t key_dim = size_t(codecs.key.dim()), value_dim = size_t(codecs.value.dim());
  const PageBasis key = like ? basis_in(codecs.key, like) : basis_of(codecs.key, head, tokens.k);
  const PageBasis value =
      like ? basis_in(codecs.value, like + codecs.key.bytes) : basis_of(codecs.value, head, tokens.v);
  if (kept.tokens() > 0) {
    state.key_order[size_t(head)] = key.order;
    state.value_order[size_t(head)] = value.order;
  }
  for (size_t page = 0; page < size_t(pages_for(kept.tokens())); ++page) {
    std::vector<float> k = page_of(tokens.k, key_dim, page);
    const std::vector<float> v = page_of(tokens.v, value_dim, page);
    kept.pages.push_back(PageRef::allocate(pool, codecs.page_bytes()));
    if (codecs.key.turning) codecs.key.turning->remove(head, kept.rows_of(int(page)), k.data());
    std::byte* const bytes = kept.pages.back().bytes();
    encode_page(codecs.key, head, key.order, key.mean, k.data(), bytes);
    encode_page(codecs.value, head, value.order, value.mean, v.data(), bytes + codecs.key.bytes);
  }
  return kept;
}

// Those of `all` [tokens, dim] whose numbers `chosen` lists.
std::vector<float> chosen_rows(const std::vector<float>& all, size_t dim, const std::vector<size_t>& chosen) {
  std::vector<float> rows;
  rows.reserve(chosen.size() * dim);
  for (const size_t i : chosen)
    rows.insert(rows.end(), all.begin() + int64_t(i * dim), all.begin() + int64_t((i + 1) * dim));
  return rows;
}

}  // namespace

std::vector<int32_t> Cache::positions(SequenceId sequence, int layer, int head) const {
  return held_positions(layer_of(*impl_, sequence, layer, head), impl_->options.sink, head);
}

int64_t Cache::held_tokens(SequenceId sequence, int layer) const {
  const LayerState& state = layer_of(*impl_, sequence, layer, 0);
  int64_t total = 0;
  for (int head = 0; head < int(state.kept.size()); ++head) total += held_count(state, impl_->options.sink, head);
  return total;
}

std::vector<float> Cache::rows(SequenceId sequence, int layer, int head, Side side) const {
  return held_rows(*impl_, layer, layer_of(*impl_, sequence, layer, head), head, side);
}

void Cache::keep(SequenceId sequence, int layer, std::span<const std::vector<int32_t>> positions) {
  layer_of(*impl_, sequence, layer, 0);
  LayerState& state = impl_->sequence(sequence).layers[size_t(layer)];
  const LayerCodecs& codecs = impl_->codecs[size_t(layer)];
  if (!codecs.key.raw() || !codecs.value.raw())
    throw Error(ErrorCode::unsupported, "tokens are selected in 16 bits, and layer " + std::to_string(layer) + " has " +
                                            codecs.key.codec.name + "," + codecs.value.codec.name +
                                            ": build with --kv f16 and seal into the other cache");
  if (positions.size() != state.pages.size())
    throw Error(ErrorCode::invalid_argument, "layer " + std::to_string(layer) + " has " +
                                                 std::to_string(state.pages.size()) + " KV heads, not " +
                                                 std::to_string(positions.size()));
  size_t pages = 0;
  std::vector<std::vector<size_t>> chosen(positions.size());
  for (size_t head = 0; head < positions.size(); ++head) {
    const std::vector<int32_t> held = held_positions(state, impl_->options.sink, int(head));
    const size_t sinks = size_t(std::min<int64_t>(impl_->options.sink, state.length));
    auto from = held.begin() + int64_t(sinks);
    for (const int32_t position : positions[head]) {
      from = std::lower_bound(from, held.end(), position);
      if (from == held.end() || *from != position)
        throw Error(ErrorCode::invalid_argument,
                    "KV head " + std::to_string(head) + " of layer " + std::to_string(layer) + " can't keep position " +
                        std::to_string(position) + ": it isn't there, is a sink, or comes twice or out of order");
      chosen[head].push_back(size_t(from++ - held.begin()));
    }
    pages += size_t(pages_for(int64_t(positions[head].size())));
  }
  impl_->pool.require(pages * codecs.page_bytes());
  std::vector<KeptTokens> kept;
  for (size_t head = 0; head < positions.size(); ++head) {
    const auto rows = [&](Side side, size_t dim) {
      return chosen_rows(held_rows(*impl_, layer, state, int(head), side), dim, chosen[head]);
    };
    kept.push_back(pack(
        impl_->pool, codecs, state, int(head),
        {positions[head], rows(Side::key, size_t(codecs.key.dim())), rows(Side::value, size_t(codecs.value.dim()))},
        nullptr));
  }
  state.kept = std::move(kept);
  for (auto& head : state.pages) head.clear();
  state.packed_pages = state.dropped_pages = 0;
  state.first = std::max<int64_t>(state.length, impl_->options.sink);
}

void Cache::skip(SequenceId sequence, int64_t tokens) {
  const int sink = impl_->options.sink;
  if (tokens < 0 || length(sequence) < sink)
    throw Error(ErrorCode::invalid_argument,
                "tokens can be skipped once a sequence has its " + std::to_string(sink) + " sinks, and not backwards");
  const ScopedSequence skipped(*this, fork(sequence));
  for (int layer = 0; layer < int(impl_->geometry.layers.size()); ++layer) {
    std::vector<std::vector<int32_t>> kept;
    for (int head = 0; head < impl_->geometry.layers[size_t(layer)].kv_heads; ++head) {
      kept.push_back(positions(skipped.id(), layer, head));
      kept.back().erase(kept.back().begin(), kept.back().begin() + sink);
    }
    keep(skipped.id(), layer, kept);
  }
  SequenceState& state = impl_->sequence(skipped.id());
  for (LayerState& layer : state.layers) layer.first = layer.length += tokens;
  impl_->sequences.insert_or_assign(sequence, std::move(state));
}

SequenceId Cache::seal(const Cache& from, SequenceId sequence, std::optional<SequenceId> like) {
  const SequenceState* const model = like ? &impl_->sequence(*like) : nullptr;
  const SequenceState& source = from.impl_->sequence(sequence);
  if (from.geometry().layers != geometry().layers || from.options().sink != options().sink)
    throw Error(ErrorCode::invalid_argument,
                "a sequence is sealed into a cache of the same model with the same --sink, and this one differs");
  size_t bytes = 0;
  for (size_t i = 0; i < source.layers.size(); ++i) {
    const LayerState& layer = source.layers[i];
    for (int head = 0; head < int(layer.pages.size()); ++head) {
      const int64_t held = held_count(layer, options().sink, head);
      bytes += size_t(pages_for(std::max<int64_t>(0, held - options().sink))) * impl_->codecs[i].page_bytes();
    }
    bytes +=
        window_bytes(geometry().layers[i], window_rows(options(), std::min<int64_t>(layer.length, options().sink)));
  }
  impl_->pool.require(bytes);
  ScopedSequence sealed(*this, create());
  for (size_t i = 0; i < source.layers.size(); ++i) {
    const LayerState& layer = source.layers[i];
    LayerState& state = impl_->sequence(sealed.id()).layers[i];
    const LayerCodecs& codecs = impl_->codecs[i];
    const int64_t sinks = std::min<int64_t>(layer.length, options().sink);
    state.length = layer.length;
    state.first = std::max<int64_t>(layer.length, options().sink);
    state.window.grow(window_rows(options(), sinks));
    for (int head = 0; head < int(layer.pages.size()); ++head) {
      const std::vector<int32_t> held = held_positions(layer, options().sink, head);
      HeadTokens tokens;
      tokens.positions.assign(held.begin() + sinks, held.end());
      for (const Side side : {Side::key, Side::value}) {
        const std::vector<float> rows = held_rows(*from.impl_, int(i), layer, head, side);
        const int64_t split = sinks * state.window.dim(side);
        const HalfKind half = side == Side::key ? codecs.key_window() : codecs.value_window();
        std::transform(rows.begin(), rows.begin() + split, state.window.sink(side, head),
                       [half](float x) { return float_to_half(half, x); });
        (side == Side::key ? tokens.k : tokens.v).assign(rows.begin() + split, rows.end());
      }
      const std::vector<PageRef>* const before = model ? &model->layers[i].kept[size_t(head)].pages : nullptr;
      state.kept[size_t(head)] = pack(impl_->pool, codecs, state, head, std::move(tokens),
                                      before && !before->empty() ? before->front().bytes() : nullptr);
    }
  }
  return sealed.release();
}

}  // namespace kvasir
