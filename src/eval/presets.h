// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Settings under which others published their numbers, as method names: `kivi-paper`, `llama-q4_0`, ... Each carries
// what its source says, so that a report can show the claim beside what was measured here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/logit_source.h"

namespace kvasir {

struct Preset {
  std::string_view name;
  std::string_view kv;  // as in --kv: K[,V] or native:K[,V]
  int sink = 0, recent = 0;
  bool protect = false;
  std::string_view layers;    // as in --kv-layers
  std::string_view source;    // who, where
  std::string_view settings;  // what the source runs
  std::string_view differs;   // where this preset isn't the same, and in which direction that works
  std::vector<std::string_view> claims;
};

std::span<const Preset> presets();
const Preset* find_preset(std::string_view name);  // null if there is none
std::string preset_names();                        // separated by commas

// Why the preset can't run in this version, as a sentence; empty if it can.
std::string why_unavailable(const Preset& preset);

// What a method's name stands for: a preset with its own windows and protections, or --kv with those of `windows`.
// "K/V" is read as "K,V", for lists of methods, and "turbo3@0-1:q8@-2--1:q8" as turbo3 with those --kv-layers. Throws
// Error: invalid_argument for layers of llama.cpp's own cache, unsupported for a preset that needs a codec which isn't
// in this version, and what SourceSpec::parse throws.
SourceSpec method_spec(const std::string& name, const CacheOptions& windows);

}  // namespace kvasir
