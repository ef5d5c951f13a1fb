// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The grammar of --kv and --kv-layers.
#include <algorithm>
#include <charconv>
#include <tuple>

#include "cache/tuned_file.h"
#include "kvasir/cache.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::pair<std::string, std::string> parse_pair(const std::string& text, const char* flag) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > 2 || parts[0].empty() || parts.back().empty())
    throw Error(ErrorCode::invalid_argument, std::string(flag) + " takes K[,V], got '" + text + "'");
  for (const std::string& name : parts)
    if (name.starts_with("auto:"))
      throw Error(ErrorCode::invalid_argument, "auto takes no options; it stands for " + std::string(kFittedAuto) +
                                                   " where the model has a calibration, else for " +
                                                   CacheOptions().key + "," + CacheOptions().value + ": name those");
  const CacheOptions defaults;
  const std::string key = parts[0] == "auto" ? defaults.key : parts[0];
  const std::string value = parts.back() == "auto" ? defaults.value : parts.back();
  // Throws, with the list of names; equal codecs get equal names.
  const auto checked = [](const std::string& name, Side side) {
    return is_fitted_codec(name) ? name : make_codec(name, side, 64).name;
  };
  return {checked(key, Side::key), checked(value, Side::value)};
}

// An integer at the start of `text`, which is shortened by it.
int take_layer(std::string& text, const std::string& whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc())
    throw Error(ErrorCode::invalid_argument,
                "--kv-layers takes ranges and a codec, as in 0-1,-2--1:q8; can't read '" + whole + "'");
  text.erase(0, size_t(end - text.data()));
  return value;
}

LayerOverride parse_range(std::string text, const std::string& whole) {
  LayerOverride rule;
  rule.first = rule.last = take_layer(text, whole);
  if (!text.empty() && text[0] == '-') {
    text.erase(0, 1);
    rule.last = take_layer(text, whole);
  }
  if (!text.empty())
    throw Error(ErrorCode::invalid_argument, "--kv-layers: unexpected '" + text + "' in '" + whole + "'");
  return rule;
}

}  // namespace

void parse_kv(const std::string& text, CacheOptions& options) {
  if (text.starts_with('@')) {
    if (!options.overrides.empty())
      throw Error(ErrorCode::invalid_argument,
                  "--kv " + text + " names the codecs of all layers; leave out --kv-layers, or edit the file");
    read_tuned_file(text.substr(1), options);
    return;
  }
  std::tie(options.key, options.value) = parse_pair(text, "--kv");
  options.automatic = text == "auto" || text == "auto,auto";
}

void parse_kv_layers(const std::string& text, CacheOptions& options) {
  for (const std::string& rule : split(text, ';')) {
    const size_t colon = rule.find(':');
    if (colon == std::string::npos)
      throw Error(ErrorCode::invalid_argument,
                  "--kv-layers takes RANGES:CODEC, as in 0-1,-2--1:q8; got '" + rule + "'");
    const auto [key, value] = parse_pair(rule.substr(colon + 1), "--kv-layers");
    for (const std::string& range : split(rule.substr(0, colon), ',')) {
      LayerOverride parsed = parse_range(range, rule);
      parsed.key = key;
      parsed.value = value;
      options.overrides.push_back(parsed);
    }
  }
}

}  // namespace kvasir
