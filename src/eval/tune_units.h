// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What `kvasir tune` chooses for: a model's layers in groups, each with two sides, and the caches and bits that choices
// of codecs stand for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvasir/cache.h"

namespace kvasir {

// Keys or values of some consecutive layers; both ends included.
struct TuneUnit {
  int first = 0, last = 0;
  Side side = Side::key;
};

// Groups of equal size up to one layer, from the first layer on: unit 2 g is the keys of group g, 2 g + 1 its values.
std::vector<TuneUnit> tune_units(int layers, int groups);

// A cache as `base` has it but for the codecs: `names[i]` is that of units[i].
CacheOptions tuned_options(const CacheOptions& base, std::span<const TuneUnit> units,
                           std::span<const std::string> names);

// The same with 16 bits everywhere but in one unit.
CacheOptions single_options(const CacheOptions& base, std::span<const TuneUnit> units, size_t unit,
                            const std::string& name);

// "0-4:K,V;5-9:K,V" for --kv-layers.
std::string kv_layers_text(std::span<const TuneUnit> units, std::span<const std::string> names);

// What the candidate adds in each unit to the bits per value of the whole cache, windows not counted. The codecs that
// are fitted come from base.fitted. Throws Error: what resolve_codecs throws (cache/layer_codecs.h).
std::vector<double> unit_bits(const Geometry& geometry, const CacheOptions& base, std::span<const TuneUnit> units,
                              const std::string& candidate);

}  // namespace kvasir
