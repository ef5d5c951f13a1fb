// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/presets.h"

#include <algorithm>

#include "eval/preset_table.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr std::string_view kNative = "native:";

std::vector<std::string> codecs_of(std::string_view kv) {
  if (kv.starts_with(kNative)) return {};
  const size_t comma = kv.find(',');
  std::vector<std::string> codecs{std::string(kv.substr(0, comma))};
  if (comma != std::string_view::npos) codecs.emplace_back(kv.substr(comma + 1));
  return codecs;
}

}  // namespace

std::span<const Preset> presets() {
  return preset_table();
}

const Preset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(presets(), name, &Preset::name);
  return found == presets().end() ? nullptr : &*found;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

std::string why_unavailable(const Preset& preset) {
  const std::vector<std::string> shipped = codec_names();
  for (const std::string& codec : codecs_of(preset.kv))
    if (!is_fitted_codec(codec) && std::ranges::find(shipped, codec.substr(0, codec.find(':'))) == shipped.end())
      return "not in this version: " + std::string(preset.name) + " needs the codec " + codec;
  return {};
}

SourceSpec method_spec(const std::string& name, const CacheOptions& windows) {
  const Preset* preset = find_preset(name);
  if (preset == nullptr) {
    std::string rest = name;
    std::ranges::replace(rest, '/', ',');
    const std::string kv = rest.substr(0, rest.find('@'));
    if (find_preset(kv) != nullptr)
      throw Error(ErrorCode::invalid_argument,
                  "'" + kv + "' brings its own layers: leave out what stands behind the @");
    CacheOptions options = windows;
    while (const size_t at = rest.find('@') + 1) {
      rest.erase(0, at);
      parse_kv_layers(rest.substr(0, rest.find('@')), options);
    }
    const SourceSpec spec = SourceSpec::parse(kv, options);
    if (spec.native && options.overrides.size() > windows.overrides.size())
      throw Error(ErrorCode::invalid_argument, "llama.cpp's own caches have one type for all layers: '" + name + "'");
    return spec;
  }
  if (const std::string reason = why_unavailable(*preset); !reason.empty()) throw Error(ErrorCode::unsupported, reason);
  CacheOptions options = windows;  // where fits come from; everything else is the preset's
  options.overrides.clear();
  options.sink = preset->sink;
  options.recent = preset->recent;
  options.protect = preset->protect;
  if (!preset->layers.empty()) parse_kv_layers(std::string(preset->layers), options);
  return SourceSpec::parse(std::string(preset->kv), options);
}

}  // namespace kvasir
