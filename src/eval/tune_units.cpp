// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/tune_units.h"

#include <fmt/format.h>

#include "cache/layer_codecs.h"

namespace kvasir {

std::vector<TuneUnit> tune_units(int layers, int groups) {
  std::vector<TuneUnit> units;
  for (int group = 0; group < groups; ++group) {
    const int first = layers * group / groups, last = layers * (group + 1) / groups - 1;
    units.push_back({first, last, Side::key});
    units.push_back({first, last, Side::value});
  }
  return units;
}

CacheOptions tuned_options(const CacheOptions& base, std::span<const TuneUnit> units,
                           std::span<const std::string> names) {
  CacheOptions options = base;
  options.automatic = false;
  options.key = names[0];
  options.value = names[1];
  options.overrides.clear();
  for (size_t i = 0; i < units.size(); i += 2)
    options.overrides.push_back({units[i].first, units[i].last, names[i], names[i + 1]});
  return options;
}

CacheOptions single_options(const CacheOptions& base, std::span<const TuneUnit> units, size_t unit,
                            const std::string& name) {
  std::vector<std::string> names(units.size(), "f16");
  names[unit] = name;
  return tuned_options(base, units, names);
}

std::string kv_layers_text(std::span<const TuneUnit> units, std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < units.size(); i += 2)
    text += fmt::format("{}{}-{}:{},{}", i == 0 ? "" : ";", units[i].first, units[i].last, names[i], names[i + 1]);
  return text;
}

std::vector<double> unit_bits(const Geometry& geometry, const CacheOptions& base, std::span<const TuneUnit> units,
                              const std::string& candidate) {
  const std::vector<std::string> names(units.size(), candidate);
  const std::vector<LayerCodecs> codecs = resolve_codecs(geometry, tuned_options(base, units, names));
  double values = 0;  // of one token
  for (const LayerGeometry& layer : geometry.layers)
    values += double(layer.kv_heads) * (layer.key_dim + layer.value_dim);
  std::vector<double> bits;
  for (const TuneUnit& unit : units) {
    double sum = 0;
    for (int layer = unit.first; layer <= unit.last; ++layer) {
      const LayerCodecs& sides = codecs[size_t(layer)];
      const size_t page = unit.side == Side::key ? sides.key.bytes : sides.value.bytes;
      sum += geometry.layers[size_t(layer)].kv_heads * 8.0 * double(page) / kPageTokens;
    }
    bits.push_back(sum / values);
  }
  return bits;
}

}  // namespace kvasir
