// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/tune_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace kvasir {
namespace {

// 7 layers, values half as wide as keys.
Geometry sample_geometry() {
  LayerGeometry layer;
  layer.heads = 4;
  layer.kv_heads = 2;
  layer.key_dim = 128;
  layer.value_dim = 64;
  Geometry geometry;
  geometry.layers.assign(7, layer);
  return geometry;
}

TEST(TuneUnits, GroupsCoverEachLayerOnce) {
  for (int layers = 1; layers <= 13; ++layers)
    for (int groups = 1; groups <= layers; ++groups) {
      const std::vector<TuneUnit> units = tune_units(layers, groups);
      ASSERT_EQ(units.size(), size_t(2 * groups));
      int next = 0, least = layers, most = 0;
      for (size_t i = 0; i < units.size(); i += 2) {
        EXPECT_EQ(units[i].first, next);
        EXPECT_EQ(units[i].side, Side::key);
        EXPECT_EQ(units[i + 1].side, Side::value);
        EXPECT_EQ(units[i + 1].first, units[i].first);
        EXPECT_EQ(units[i + 1].last, units[i].last);
        next = units[i].last + 1;
        least = std::min(least, next - units[i].first);
        most = std::max(most, next - units[i].first);
      }
      EXPECT_EQ(next, layers);
      EXPECT_GE(least, 1);
      EXPECT_LE(most - least, 1);
    }
}

// The units' bits add up to those of the pages of a cache with that codec everywhere.
TEST(TuneUnits, BitsAreWeightedByValues) {
  const std::vector<TuneUnit> units = tune_units(7, 3);
  for (const char* name : {"turbo3", "kivi2", "f16"}) {
    const std::vector<double> bits = unit_bits(sample_geometry(), CacheOptions(), units, name);
    const double keys = bits_per_value(make_codec(name, Side::key, 128));
    const double values = bits_per_value(make_codec(name, Side::value, 64));
    EXPECT_NEAR(std::accumulate(bits.begin(), bits.end(), 0.0), (2 * keys + values) / 3, 1e-12) << name;
    EXPECT_NEAR(bits[0], 2 * keys / 3 * 2 / 7, 1e-12) << name;  // layers 0 and 1
  }
}

TEST(TuneUnits, ChoicesAreWhatTheirTextSays) {
  const std::vector<TuneUnit> units = tune_units(7, 2);
  const std::vector<std::string> names = {"turbo3", "turbo2", "q8", "kivi2"};
  const std::string text = kv_layers_text(units, names);
  EXPECT_EQ(text, "0-2:turbo3,turbo2;3-6:q8,kivi2");
  CacheOptions parsed;
  parse_kv_layers(text, parsed);
  const CacheOptions tuned = tuned_options(CacheOptions(), units, names);
  EXPECT_EQ(tuned.overrides, parsed.overrides);
  EXPECT_EQ(tuned.key, "turbo3");
  EXPECT_EQ(tuned.value, "turbo2");

  const CacheOptions single = single_options(CacheOptions(), units, 3, "q8");
  EXPECT_EQ(single.overrides, (std::vector<LayerOverride>{{0, 2, "f16", "f16"}, {3, 6, "f16", "q8"}}));
}

}  // namespace
}  // namespace kvasir
