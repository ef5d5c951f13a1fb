// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/snapshot_identity.h"

#include <fmt/format.h>

#include <span>

#include "base/checksum.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

Json shape(const LayerGeometry& layer) {
  return {{"heads", layer.heads},     {"kv_heads", layer.kv_heads},
          {"key_dim", layer.key_dim}, {"value_dim", layer.value_dim},
          {"scale", layer.scale},     {"softcap", layer.softcap},
          {"window", layer.window},   {"sink_logits", layer.sink_logits}};
}

void add_maps(PiecewiseChecksum& sum, const FittedMaps& maps) {
  for (const FittedMap& map : maps) {
    for (const std::vector<float>* part : {&map.rows, &map.dual, &map.mean}) sum.add(std::as_bytes(std::span(*part)));
    sum.add(std::as_bytes(std::span(&map.clip, 1)));
  }
}

// One number for everything that says what a page's bytes mean beside the codec's name: protections, segments, maps.
// Enumerators are written as numbers, so a new one goes to the end of its list or the format gets a new version.
std::string meaning(const SideLayout& side) {
  const Codec& codec = side.codec;
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {}", codec.dim, int(codec.map), codec.center,
                                 int(codec.scale_span), int(codec.scale_fit), int(codec.scale_format), codec.seed,
                                 codec.sort_channels, int(codec.projection), side.bytes);
  for (const Segment& segment : codec.segments)
    text += fmt::format(" {} {} {} {}", segment.first, segment.count, segment.bits, int(segment.quantizer));
  PiecewiseChecksum sum;
  sum.add(std::as_bytes(std::span(text)));
  if (side.fitted) add_maps(sum, *side.fitted);
  if (side.turning) {
    const std::vector<double> numbers = side.turning->numbers();
    sum.add(std::as_bytes(std::span(numbers)));
  }
  return fmt::format("{:016x}", sum.value());
}

Json side_identity(const SideLayout& side) {
  return {{"name", side.codec.name}, {"meaning", meaning(side)}};
}

// Throws for the first layer whose codec isn't the file's.
void require_codecs(const std::string& path, const Json& file, const CacheImpl& cache) {
  for (size_t i = 0; i < cache.codecs.size(); ++i)
    for (const auto& [key, words, side] :
         {std::tuple("key", "keys", &cache.codecs[i].key), std::tuple("value", "values", &cache.codecs[i].value)}) {
      const Json& saved = file.at("codecs").at(i).at(key);
      const auto name = saved.at("name").get<std::string>();
      if (name != side->codec.name)
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("the snapshot `{}` holds the {} of layer {} as {}, this cache as {}: use --kv {},{} and "
                        "the --kv-layers that it was saved with, or start another sequence",
                        path, words, i, name, side->codec.name, file.at("kv").at("key").get<std::string>(),
                        file.at("kv").at("value").get<std::string>()));
      if (saved.at("meaning") != meaning(*side))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the snapshot `{}` holds the {} of layer {} as {} with another calibration or "
                                "protection ({}) than this cache ({}): use --calibration FILE with the one that it was "
                                "saved with, or start another sequence",
                                path, words, i, name, saved.at("meaning").get<std::string>(), meaning(*side)));
    }
}

}  // namespace

Json snapshot_identity(const CacheImpl& cache, const std::string& model, const std::string& model_name) {
  Json identity = {{"model", model},
                   {"model_name", model_name},
                   {"sink", cache.options.sink},
                   {"recent", cache.options.recent},
                   {"kv", {{"key", cache.options.key}, {"value", cache.options.value}}},
                   {"geometry", Json::array()},
                   {"codecs", Json::array()}};
  for (const LayerGeometry& layer : cache.geometry.layers) identity["geometry"].push_back(shape(layer));
  for (const LayerCodecs& codecs : cache.codecs)
    identity["codecs"].push_back({{"key", side_identity(codecs.key)}, {"value", side_identity(codecs.value)}});
  return identity;
}

void require_identity(const std::string& path, const Json& file, const CacheImpl& cache, const std::string& model) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("the snapshot `{}` {}", path, what));
  };
  if (const auto saved = file.at("model").get<std::string>(); saved != model)
    refuse(
        fmt::format("was made with another model ({}, {}) than this one ({}): give -m that model, or start another "
                    "sequence",
                    file.at("model_name").get<std::string>(), saved, model));
  const Json& layers = file.at("geometry");
  if (layers.size() != cache.geometry.layers.size() || file.at("codecs").size() != layers.size())
    refuse(fmt::format("has {} layers, this cache has {}: give -m the model that it was made with", layers.size(),
                       cache.geometry.layers.size()));
  for (size_t i = 0; i < layers.size(); ++i)
    if (const Json here = shape(cache.geometry.layers[i]); layers[i] != here)
      refuse(fmt::format("has the shape {} in layer {}, this cache has {}: give -m the model that it was made with",
                         layers[i].dump(), i, here.dump()));
  require_codecs(path, file, cache);
  const int sink = file.at("sink").get<int>(), recent = file.at("recent").get<int>();
  if (sink != cache.options.sink || recent != cache.options.recent)
    refuse(
        fmt::format("was saved with --sink {} --recent {}, this cache has --sink {} --recent {}: give the same, or "
                    "start another sequence",
                    sink, recent, cache.options.sink, cache.options.recent));
}

}  // namespace kvasir
