// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rotation_safetensors.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/safetensors.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr std::string_view kFormat = "kvasir rotations 1";
constexpr std::string_view kLayers = "layers.";

std::string prefix_of(Side side) {
  return std::string(side_name(side)) + ".";
}

TensorShape rotation_shape(const RotationLayer& layer, bool per_head) {
  return per_head ? TensorShape{layer.heads, layer.dim, layer.dim} : TensorShape{layer.dim, layer.dim};
}

TensorShape eigenvalue_shape(const RotationLayer& layer, bool per_head) {
  return per_head ? TensorShape{layer.heads, layer.dim} : TensorShape{layer.dim};
}

void add_set(const RotationSet& set, const std::string& prefix, SafetensorsWriter& writer) {
  writer.set_metadata(prefix + "objective", set.objective);
  writer.set_metadata(prefix + "grouping", std::string(grouping_name(set.per_head)));
  for (const RotationLayer& layer : set.layers) {
    const std::string name = fmt::format("{}{}{}.", prefix, kLayers, layer.layer);
    writer.add(name + "rotation", rotation_shape(layer, set.per_head), layer.rotation);
    if (!layer.eigenvalues.empty())
      writer.add(name + "eigenvalues", eigenvalue_shape(layer, set.per_head), layer.eigenvalues);
  }
}

class Reader {
 public:
  Reader(const std::string& path, Side side) : file_(path), source_("`" + path + "`"), side_(side) {}

  RotationSet read() {
    const auto format = file_.metadata().find("format");
    if (format == file_.metadata().end() || format->second != kFormat)
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} isn't a file of rotations: its metadata lack the format `{}`", source_, kFormat));
    const std::string& sides = file_.metadata("side");
    if (sides == "both") {
      prefix_ = prefix_of(side_);
    } else if (sides != side_name(side_)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{} holds rotations of the side `{}` and those of `{}` were "
                                                           "asked for",
                                                           source_, sides, side_name(side_)));
    }
    RotationSet set;
    set.side = side_;
    set.objective = file_.metadata(prefix_ + "objective");
    const std::string& grouping = file_.metadata(prefix_ + "grouping");
    set.per_head = grouping == grouping_name(true);
    if (grouping != grouping_name(set.per_head)) fail(fmt::format("the grouping {} isn't known", grouping));
    read_layers(set);
    validate(set, source_);
    return set;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::corrupt, fmt::format("{} isn't a sound file of rotations: {}", source_, what));
  }

  // "layers.12.rotation" -> 12, "rotation"
  std::pair<int, std::string_view> parse(std::string_view name) const {
    int layer = -1;
    std::string_view rest = name.substr(prefix_.size());
    if (!rest.starts_with(kLayers)) fail(fmt::format("the tensor {} has no place in it", name));
    rest.remove_prefix(kLayers.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    const std::string_view what = rest.substr(size_t(end - rest.data()));
    if (error != std::errc() || fmt::format("{}", layer).size() + what.size() != rest.size() || layer < 0 ||
        (what != ".rotation" && what != ".eigenvalues"))
      fail(fmt::format("the tensor {} has no place in it", name));
    return {layer, what.substr(1)};
  }

  void read_layers(RotationSet& set) {
    std::map<int, RotationLayer> layers;
    const std::string other = prefix_of(side_ == Side::key ? Side::value : Side::key);
    for (const auto& [name, view] : file_.tensors()) {
      if (!prefix_.empty() && name.starts_with(other)) continue;
      if (!name.starts_with(prefix_)) fail(fmt::format("the tensor {} belongs to no side", name));
      const auto [id, what] = parse(name);
      RotationLayer& layer = layers[id];
      layer.layer = id;
      const std::span<const float> numbers = file_.values<float>(name);
      if (what == "rotation") {
        read_shape(set.per_head, name, view.shape, layer);
        layer.rotation.assign(numbers.begin(), numbers.end());
      } else {
        layer.eigenvalues.assign(numbers.begin(), numbers.end());
      }
    }
    for (auto& [id, layer] : layers) {
      if (layer.rotation.empty()) fail(fmt::format("layer {} has no rotation", id));
      if (!layer.eigenvalues.empty())
        file_.require_shape(fmt::format("{}{}{}.eigenvalues", prefix_, kLayers, id),
                            eigenvalue_shape(layer, set.per_head));
      set.layers.push_back(std::move(layer));
    }
  }

  void read_shape(bool per_head, std::string_view name, const TensorShape& shape, RotationLayer& layer) const {
    const size_t dims = per_head ? 3 : 2;
    if (shape.size() != dims || shape[dims - 1] != shape[dims - 2] || shape.back() < 1 ||
        shape.back() > kMaxRotationDim || (per_head && (shape[0] < 1 || shape[0] > kMaxRotationHeads)))
      fail(fmt::format("the tensor {} is {} and not {} of at most {} channels", name, shape_text(shape),
                       per_head ? "[heads, d, d]" : "[d, d]", kMaxRotationDim));
    layer.heads = per_head ? int(shape[0]) : 1;
    layer.dim = int(shape.back());
  }

  SafetensorsFile file_;
  std::string source_;
  Side side_;
  std::string prefix_;  // empty: the file has one side
};

}  // namespace

void write_rotation_safetensors(std::span<const RotationSet> sets, const std::string& path) {
  if (sets.empty() || sets.size() > 2 || (sets.size() == 2 && sets[0].side == sets[1].side))
    throw Error(ErrorCode::invalid_argument, "a file of rotations takes one set, or one of keys and one of values");
  SafetensorsWriter writer;
  writer.set_metadata("format", std::string(kFormat));
  writer.set_metadata("side", sets.size() == 2 ? "both" : std::string(side_name(sets[0].side)));
  for (const RotationSet& set : sets) {
    validate(set, fmt::format("the {} rotations for `{}`", side_name(set.side), path));
    add_set(set, sets.size() == 2 ? prefix_of(set.side) : "", writer);
  }
  writer.save(path);
}

RotationSet read_rotation_safetensors(const std::string& path, Side side) {
  return Reader(path, side).read();
}

}  // namespace kvasir
