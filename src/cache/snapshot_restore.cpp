// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "cache/snapshot.h"
#include "cache/snapshot_file.h"
#include "cache/snapshot_identity.h"
#include "kvasir/error.h"
#include "kvasir/session.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 1> kKnownFeatures = {kKeptTokens};

// Takes a section piece by piece; it has to hold exactly what is taken.
class SectionReader {
 public:
  SectionReader(const SnapshotFile& file, std::string name)
      : file_(file), name_(std::move(name)), rest_(file.section(name_)) {}
  std::span<const std::byte> take(size_t bytes) {
    if (bytes > rest_.size()) file_.corrupt("has a section `" + name_ + "` that is too short for its header");
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  void end() const {
    if (!rest_.empty()) file_.corrupt("has a section `" + name_ + "` that is too long for its header");
  }

 private:
  const SnapshotFile& file_;
  std::string name_;
  std::span<const std::byte> rest_;
};

SequenceRecord read_record(const SnapshotFile& file) {
  SequenceRecord record;
  record.model = file.content().at("model").get<std::string>();
  record.model_name = file.content().at("model_name").get<std::string>();
  const auto tokens = file.section("tokens"), data = file.section("data");
  if (!tokens.empty() && tokens.size() != file.content().at("length").get<uint64_t>() * sizeof(int32_t))
    file.corrupt("has a section `tokens` that isn't as long as its sequence");
  record.tokens.resize(tokens.size() / sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(record.tokens.data(), tokens.data(), record.tokens.size() * sizeof(int32_t));
  record.data.assign(reinterpret_cast<const char*>(data.data()), data.size());
  return record;
}

class Restorer {
 public:
  Restorer(CacheImpl& cache, const SnapshotFile& file)
      : cache_(cache), file_(file), windows_(file, "windows"), positions_(file, "positions"), orders_(file, "orders") {}

  // The sequence, complete; the cache's own are as they were.
  SequenceState restore() {
    const auto length = file_.content().at("length").get<int64_t>();
    const Json& layers = file_.content().at("layers");
    if (length < 0 || layers.size() != cache_.geometry.layers.size()) contradicts();
    require_windows(length);
    SequenceState state;
    for (size_t i = 0; i < layers.size(); ++i) {
      const LayerGeometry& shape = cache_.geometry.layers[i];
      LayerState& layer = state.layers.emplace_back(Window(cache_.pool, shape), shape.kv_heads, cache_.options.sink);
      layer.length = length;
      read_counters(layer, layers[i]);
      read_positions(layer, layers[i].at("kept"));
      read_pages(layer, i, layers[i].at("lists"));
      read_windows(layer, shape.kv_heads);
      read_orders(layer, layers[i].at("sorted"), cache_.codecs[i]);
    }
    windows_.end();
    positions_.end();
    orders_.end();
    return state;
  }

 private:
  [[noreturn]] void contradicts() const { file_.corrupt("has a header that contradicts itself"); }

  void require_windows(int64_t length) const {
    size_t bytes = 0;
    for (const LayerGeometry& layer : cache_.geometry.layers)
      bytes += window_bytes(layer, window_rows(cache_.options, length));
    cache_.pool.require(bytes);
  }

  void read_counters(LayerState& layer, const Json& entry) const {
    layer.first = entry.at("first").get<int64_t>();
    layer.packed_pages = entry.at("packed_pages").get<int64_t>();
    layer.dropped_pages = entry.at("dropped_pages").get<int64_t>();
    const int64_t sink = cache_.options.sink;
    const bool sound = layer.first >= sink && layer.first <= std::max(sink, layer.length) && layer.dropped_pages >= 0 &&
                       layer.dropped_pages <= layer.packed_pages && layer.packed_pages <= layer.length / kPageTokens &&
                       (layer.packed_pages == 0 || layer.packed_end() <= layer.length);
    if (!sound) contradicts();
  }

  void read_positions(LayerState& layer, const Json& counts) {
    if (counts.size() != layer.kept.size()) contradicts();
    for (size_t head = 0; head < layer.kept.size(); ++head) {
      const auto count = counts[head].get<uint64_t>();
      if (count > uint64_t(layer.first)) contradicts();
      const auto bytes = positions_.take(count * sizeof(int32_t));
      std::vector<int32_t>& positions = layer.kept[head].positions;
      positions.resize(count);
      if (count > 0) std::memcpy(positions.data(), bytes.data(), bytes.size());
      int64_t least = cache_.options.sink;
      for (const int32_t position : positions) {
        if (position < least || position >= layer.first) contradicts();
        least = int64_t(position) + 1;
      }
    }
  }

  void read_pages(LayerState& layer, size_t index, const Json& counts) const {
    SectionReader section(file_, page_section(index));
    const size_t bytes = cache_.codecs[index].page_bytes();
    const size_t stride = (bytes + kSnapshotPageAlignment - 1) / kSnapshotPageAlignment * kSnapshotPageAlignment;
    for (const PageLists& lists : page_lists(layer)) {
      if (!counts.contains(lists.name)) continue;  // a kind that the writer didn't know
      const Json& of_heads = counts.at(lists.name);
      if (of_heads.size() != lists.heads.size()) contradicts();
      for (size_t head = 0; head < lists.heads.size(); ++head)
        for (auto left = of_heads[head].get<uint64_t>(); left > 0; --left)
          lists.heads[head]->push_back(PageRef::map(cache_.pool, file_.file(), section.take(stride).data(), bytes));
    }
    section.end();
    for (const auto& pages : layer.pages)
      if (int64_t(pages.size()) != layer.packed_pages - layer.dropped_pages) contradicts();
    for (const KeptTokens& kept : layer.kept)
      if (int64_t(kept.pages.size()) != pages_for(kept.tokens())) contradicts();
  }

  void read_windows(LayerState& layer, int kv_heads) {
    const WindowRows live = live_rows(layer, cache_.options);
    layer.window.grow(window_rows(cache_.options, layer.length));
    if (live.recent > layer.window.rows().recent) contradicts();
    each_window_run(layer, kv_heads, live, [&](uint16_t* rows, size_t values) {
      const auto bytes = windows_.take(values * sizeof(uint16_t));
      if (!bytes.empty()) std::memcpy(rows, bytes.data(), bytes.size());
    });
  }

  void read_orders(LayerState& layer, const Json& sorted, const LayerCodecs& codecs) {
    if (sorted.size() != layer.key_order.size()) contradicts();
    const auto read = [&](const Codec& codec, ChannelOrder& order) {
      if (!codec.sort_channels) return;
      const auto bytes = orders_.take(order_bytes(codec.dim));
      const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
      order.assign(first, first + bytes.size());
    };
    for (size_t head = 0; head < layer.key_order.size(); ++head) {
      if (!sorted[head].get<bool>()) continue;
      read(codecs.key.codec, layer.key_order[head]);
      read(codecs.value.codec, layer.value_order[head]);
    }
  }

  CacheImpl& cache_;
  const SnapshotFile& file_;
  SectionReader windows_, positions_, orders_;
};

// nlohmann's complaints about a header whose checksum is right, but that no writer of this format writes.
template <typename Read>
auto read_content(const SnapshotFile& file, Read read) {
  try {
    return read();
  } catch (const Json::exception&) {
    file.corrupt("has a header that lacks something or contradicts itself");
  }
}

}  // namespace

RestoredSequence restore_sequence(Cache& cache, const std::string& path, const std::string& model) {
  CacheImpl& impl = cache.impl();
  const SnapshotFile file(path, kKnownFeatures);
  return read_content(file, [&] {
    require_identity(path, file.content(), impl, model);
    RestoredSequence restored{impl.next_id, read_record(file)};
    impl.sequences.emplace(impl.next_id, Restorer(impl, file).restore());
    ++impl.next_id;
    return restored;
  });
}

SnapshotSummary read_snapshot(const std::string& path) {
  const SnapshotFile file(path, kKnownFeatures);
  return read_content(file, [&] {
    const Json& content = file.content();
    SnapshotSummary summary;
    summary.record = read_record(file);
    summary.length = content.at("length").get<int64_t>();
    summary.bytes = file.file()->bytes().size();
    summary.key = content.at("kv").at("key").get<std::string>();
    summary.value = content.at("kv").at("value").get<std::string>();
    summary.sink = content.at("sink").get<int>();
    summary.recent = content.at("recent").get<int>();
    return summary;
  });
}

}  // namespace kvasir
