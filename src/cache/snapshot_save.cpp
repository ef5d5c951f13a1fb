// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cache/snapshot.h"
#include "cache/snapshot_file.h"
#include "cache/snapshot_identity.h"
#include "kvasir/error.h"
#include "kvasir/session.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;
using Pieces = std::vector<std::span<const std::byte>>;

constexpr std::array<std::byte, kSnapshotPageAlignment> kZeros{};

void require_whole(const SequenceState& state, const SequenceRecord& record) {
  const int64_t length = state.layers.back().length;
  for (const LayerState& layer : state.layers)
    if (layer.length != length)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a sequence whose layers hold {} and {} tokens can't be saved: finish its batch first",
                              layer.length, length));
  if (!record.tokens.empty() && int64_t(record.tokens.size()) != length)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the record names {} tokens, the sequence has {}: name all of them or none",
                            record.tokens.size(), length));
}

// The pages of one layer, and how many each head has in each list.
Json add_pages(SnapshotWriter& writer, size_t index, LayerState& state, size_t page_bytes) {
  Json counts = Json::object();
  Pieces pieces;
  const size_t padding = (kSnapshotPageAlignment - page_bytes % kSnapshotPageAlignment) % kSnapshotPageAlignment;
  for (const PageLists& lists : page_lists(state)) {
    Json& of_heads = counts[lists.name] = Json::array();
    for (const auto* pages : lists.heads) {
      of_heads.push_back(pages->size());
      for (const PageRef& page : *pages) {
        pieces.emplace_back(page.bytes(), page_bytes);
        pieces.push_back(std::span(kZeros).first(padding));
      }
    }
  }
  writer.add(page_section(index), std::move(pieces));
  return counts;
}

}  // namespace

uint64_t save_sequence(const Cache& cache, SequenceId sequence, const SequenceRecord& record, const std::string& path) {
  const CacheImpl& impl = cache.impl();
  // Sections are spans into the sequence; only what restores it writes through them.
  SequenceState& state = const_cast<CacheImpl&>(impl).sequence(sequence);
  require_whole(state, record);

  SnapshotWriter writer;
  Json layers = Json::array();
  Pieces windows, positions, orders;
  for (size_t i = 0; i < state.layers.size(); ++i) {
    LayerState& layer = state.layers[i];
    const WindowRows live = live_rows(layer, impl.options);
    each_window_run(layer, impl.geometry.layers[i].kv_heads, live, [&](const uint16_t* rows, size_t values) {
      windows.push_back(std::as_bytes(std::span(rows, values)));
    });
    Json kept = Json::array(), sorted = Json::array();
    for (size_t head = 0; head < layer.kept.size(); ++head) {
      kept.push_back(layer.kept[head].positions.size());
      positions.push_back(std::as_bytes(std::span(layer.kept[head].positions)));
      sorted.push_back(!layer.key_order[head].empty() || !layer.value_order[head].empty());
      for (const ChannelOrder* order : {&layer.key_order[head], &layer.value_order[head]})
        orders.push_back(std::as_bytes(std::span(*order)));
    }
    layers.push_back({{"first", layer.first},
                      {"packed_pages", layer.packed_pages},
                      {"kept", std::move(kept)},
                      {"sorted", std::move(sorted)},
                      {"dropped_pages", layer.dropped_pages},
                      {"lists", add_pages(writer, i, layer, impl.codecs[i].page_bytes())}});
  }
  writer.add("windows", std::move(windows));
  if (std::ranges::any_of(positions, [](const auto& run) { return !run.empty(); })) writer.need(kKeptTokens);
  writer.add("positions", std::move(positions));
  writer.add("orders", std::move(orders));
  writer.add("tokens", {std::as_bytes(std::span(record.tokens))});
  writer.add("data", {std::as_bytes(std::span(record.data))});
  Json content = snapshot_identity(impl, record.model, record.model_name);
  content["length"] = state.layers.back().length;
  content["layers"] = std::move(layers);
  return writer.write(path, std::move(content));
}

}  // namespace kvasir
