// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rotation_zoo.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/safetensors.h"
#include "calibrate/pickle_reader.h"
#include "calibrate/torch_archive.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

class ZooReader {
 public:
  explicit ZooReader(const std::string& path) : archive_(path) {}

  RotationSet read(Side side) {
    const PickleValue root = read_tensor_pickle(archive_.pickle(), archive_.source());
    const PickleDict& file = dict(root, "the file");
    require_keys(file, {"format_version", "objective", "source_grouping", "layers"}, {}, "the file");
    const int64_t version = number(file, "format_version");
    const std::string& grouping = text(file, "source_grouping");
    if (version != 1 && version != 2) refuse(fmt::format("its format_version is {}; 1 and 2 work", version));

    RotationSet set;
    set.side = side;
    set.per_head = version == 2;
    set.objective = text(file, "objective");
    if (grouping != grouping_name(set.per_head))
      refuse(fmt::format("its source_grouping is {} and not the {} of format_version {}", grouping,
                         grouping_name(set.per_head), version));
    const PickleDict& layers = dict(entry(file, "layers"), "layers");
    if (layers.keys.size() > size_t(kMaxRotationLayers))
      refuse(fmt::format("it has {} layers, at most {} work", layers.keys.size(), kMaxRotationLayers));
    for (size_t i = 0; i < layers.keys.size(); ++i)
      set.layers.push_back(layer(layer_id(layers.keys[i]), layers.values[i], set.per_head));
    std::sort(set.layers.begin(), set.layers.end(), [](const auto& a, const auto& b) { return a.layer < b.layer; });
    require_no_rest();
    return set;
  }

  const std::string& source() const { return archive_.source(); }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unsupported, fmt::format("{} isn't a rotation file: {}", source(), what));
  }
  const PickleValue& as(PickleKind kind, const PickleValue& value, std::string_view what) const {
    if (value.kind != kind) refuse(fmt::format("{} is of another type than in such files", what));
    return value;
  }
  const PickleDict& dict(const PickleValue& value, std::string_view what) const {
    return *as(PickleKind::dict, value, what).dict;
  }
  const PickleTensor& tensor(const PickleValue& value, const std::string& what) const {
    return *as(PickleKind::tensor, value, what).tensor;
  }
  static bool is_named(const PickleValue& key, std::string_view name) {
    return key.kind == PickleKind::text && key.text == name;
  }

  const PickleValue& entry(const PickleDict& dict, std::string_view key) const {
    for (size_t i = 0; i < dict.keys.size(); ++i) {
      if (is_named(dict.keys[i], key)) return dict.values[i];
    }
    refuse(fmt::format("it lacks {}", key));
  }
  int64_t number(const PickleDict& dict, std::string_view key) const {
    return as(PickleKind::number, entry(dict, key), key).number;
  }
  const std::string& text(const PickleDict& dict, std::string_view key) const {
    const std::string& text = as(PickleKind::text, entry(dict, key), key).text;
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }))
      refuse(fmt::format("{} isn't plain text", key));
    return text;
  }

  using Names = std::initializer_list<std::string_view>;
  void require_keys(const PickleDict& dict, Names needed, Names possible, std::string_view what) const {
    for (size_t i = 0; i < dict.keys.size(); ++i) {
      const auto is = [&](std::string_view name) { return is_named(dict.keys[i], name); };
      if (std::none_of(needed.begin(), needed.end(), is) && std::none_of(possible.begin(), possible.end(), is))
        refuse(fmt::format("{} has an entry that such files don't have", what));
      for (size_t j = 0; j < i; ++j) {
        if (is(dict.keys[j].text)) refuse(fmt::format("{} has {} twice", what, dict.keys[i].text));
      }
    }
    for (const std::string_view key : needed) entry(dict, key);
  }

  int layer_id(const PickleValue& key) const {
    int64_t id = -1;
    if (key.kind == PickleKind::text) {
      const char* last = key.text.data() + key.text.size();
      const auto [end, error] = std::from_chars(key.text.data(), last, id);
      if (error != std::errc() || end != last) id = -1;
    } else {
      id = key.number;
    }
    if (id < 0 || id > INT32_MAX) refuse("a layer's key is no layer");
    return int(id);
  }

  RotationLayer layer(int id, const PickleValue& value, bool per_head) {
    const std::string what = fmt::format("layer {}", id);
    const PickleDict& found = dict(value, what);
    // Rotations that weren't fitted (Hadamard) have no eigenvalues either.
    require_keys(found, {"layer_id", "rotation"}, {"eigenvalues"}, what);
    if (number(found, "layer_id") != id)
      refuse(fmt::format("{} says that it is layer {}", what, number(found, "layer_id")));
    const auto& rotation = tensor(entry(found, "rotation"), what + "'s rotation");
    const std::vector<int64_t>& shape = rotation.shape;
    const size_t dims = per_head ? 3 : 2;
    if (shape.size() != dims || shape[dims - 1] != shape[dims - 2] || shape.back() < 1 ||
        shape.back() > kMaxRotationDim || shape[0] < 1 || shape[0] > std::max(kMaxRotationHeads, kMaxRotationDim))
      refuse(fmt::format("{}'s rotation is {} and not {} of at most {} channels", what, shape_text(shape),
                         per_head ? "[heads, d, d]" : "[d, d]", kMaxRotationDim));
    RotationLayer layer;
    layer.layer = id;
    layer.heads = per_head ? int(shape[0]) : 1;
    layer.dim = int(shape.back());
    layer.rotation = numbers(rotation, what + "'s rotation");
    if (found.keys.size() == 3) {
      const auto& eigenvalues = tensor(entry(found, "eigenvalues"), what + "'s eigenvalues");
      if (per_head || eigenvalues.shape != std::vector<int64_t>{layer.dim})
        refuse(fmt::format("{}'s eigenvalues are {} and not [{}]", what, shape_text(eigenvalues.shape), layer.dim));
      layer.eigenvalues = numbers(eigenvalues, what + "'s eigenvalues");
    }
    return layer;
  }

  // Row-major and inside its storage.
  std::vector<float> numbers(const PickleTensor& tensor, const std::string& what) {
    int64_t count = 1;
    if (tensor.strides.size() != tensor.shape.size()) refuse(what + " has a stride too few or too many");
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      // The only row of a dimension has no next one: torch stores any stride.
      if (tensor.shape[i] != 1 && tensor.strides[i] != count)
        refuse(what + " isn't stored row by row; save its .contiguous()");
      count *= tensor.shape[i];  // both at most 2^10, three of them
    }
    numbers_ += size_t(count);
    if (numbers_ > kMaxRotationNumbers) refuse(fmt::format("it has more than {} numbers", kMaxRotationNumbers));
    const std::vector<float>& storage = storage_of(tensor.storage);
    if (tensor.offset < 0 || count > int64_t(storage.size()) || tensor.offset > int64_t(storage.size()) - count)
      refuse(what + " reaches beyond its storage");
    const auto first = storage.begin() + ptrdiff_t(tensor.offset);
    return {first, first + ptrdiff_t(count)};
  }

  // One is kept: consecutive tensors may lie in it.
  const std::vector<float>& storage_of(const PickleStorage& storage) {
    used_.insert(storage.key);
    if (!kept_key_ || *kept_key_ != storage.key) {
      kept_ = archive_.storage(storage.key);
      kept_key_ = storage.key;
    }
    if (int64_t(kept_.size()) != storage.numbers)
      refuse(fmt::format("data/{} has {} numbers and not the {} that the pickle says", storage.key, kept_.size(),
                         storage.numbers));
    return kept_;
  }

  void require_no_rest() const {
    for (const auto& [key, bytes] : archive_.storages()) {
      if (!used_.contains(key)) refuse(fmt::format("no tensor uses data/{}", key));
    }
  }

  TorchArchive archive_;
  std::optional<std::string> kept_key_;
  std::vector<float> kept_;
  std::set<std::string, std::less<>> used_;
  size_t numbers_ = 0;
};

// The first word of an OSCAR objective: keys are fitted to queries or keys, values to scored or plain values.
void require_side(const RotationSet& set, const std::string& source) {
  const auto is = [&](std::string_view word) { return set.objective.starts_with(word); };
  const bool keys = is("qqt") || is("ktk"), values = is("sst") || is("vtv");
  if ((keys && set.side == Side::value) || (values && set.side == Side::key))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} holds rotations of {}s (objective {}) and {}s were asked for; are the two files "
                            "exchanged?",
                            source, side_name(keys ? Side::key : Side::value), set.objective, side_name(set.side)));
}

}  // namespace

RotationSet read_rotation_zoo(const std::string& path, Side side) {
  ZooReader reader(path);
  RotationSet set = reader.read(side);
  require_side(set, reader.source());
  validate(set, reader.source());
  return set;
}

}  // namespace kvasir
