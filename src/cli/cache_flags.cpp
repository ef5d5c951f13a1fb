// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/cache_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "host/fitted_codecs.h"

namespace kvasir::cli {

std::string CacheFlags::kv_text() const {
  if (type_k.empty() && type_v.empty()) return kv;
  if (kv.starts_with('@'))
    throw Error(ErrorCode::invalid_argument, "--kv " + kv + " names the codecs of both sides; leave out -ctk and -ctv");
  const size_t comma = kv.find(',');
  const std::string key = kv.substr(0, comma), value = comma == std::string::npos ? key : kv.substr(comma + 1);
  return (type_k.empty() ? key : type_k) + "," + (type_v.empty() ? value : type_v);
}

void add_cache_flags(CLI::App& command, CacheFlags& flags) {
  const std::string group = "Cache";
  std::string names;
  for (const std::string& name : codec_names()) names += ", " + name;
  for (const std::string& name : fitted_codec_names()) names += ", " + name;
  command
      .add_option("--kv", flags.kv, "codec of keys and values, K[,V]: auto" + names + "; @FILE: what kvasir tune wrote")
      ->group(group)
      ->capture_default_str();
  command.add_option("--cache-type-k", flags.type_k, "codec of keys (also -ctk)")->group(group);
  command.add_option("--cache-type-v", flags.type_v, "codec of values (also -ctv)")->group(group);
  command.add_option("--kv-layers", flags.layers, "other codecs for some layers, as in 0-1,-2--1:q8")->group(group);
  command.add_option("--sink", flags.sink, "first tokens kept in 16 bits")->group(group)->capture_default_str();
  command.add_option("--recent", flags.recent, "last tokens kept in 16 bits")->group(group)->capture_default_str();
  command.add_option("--kv-budget", flags.budget, "most bytes the cache may take, as in 512M or 2G")->group(group);
  command
      .add_option("--calibration", flags.calibration,
                  "what kvasir calibrate wrote, for codecs that are fitted to the model; else the one kept for it")
      ->group(group);
  command
      .add_option("--rotations", flags.rotations, "rotations for oscar2, K_FILE[,V_FILE]: .pt, .gguf or .safetensors")
      ->group(group);
  command.add_flag("--no-calibration", flags.no_calibration, "auto stays with codecs that need no calibration")
      ->group(group);
  command.add_flag("--no-protect", flags.no_protect, "leave out the codec's default protections")->group(group);
}

CacheOptions cache_options_without_codecs(const CacheFlags& flags) {
  if (flags.sink < 0 || flags.recent < 0)
    throw Error(ErrorCode::invalid_argument, "--sink and --recent take 0 or more tokens, got " +
                                                 std::to_string(flags.sink) + " and " + std::to_string(flags.recent));
  CacheOptions options;
  options.sink = flags.sink;
  options.recent = flags.recent;
  options.protect = !flags.no_protect;
  options.calibration = flags.calibration;
  options.use_kept = !flags.no_calibration;
  options.rotations = flags.rotations;
  if (!flags.layers.empty()) as_argument([&] { parse_kv_layers(flags.layers, options); });
  if (!flags.budget.empty()) options.budget = parse_bytes(flags.budget, "--kv-budget");
  return options;
}

CacheOptions cache_options(const CacheFlags& flags) {
  CacheOptions options = cache_options_without_codecs(flags);
  as_argument([&] { parse_kv(flags.kv_text(), options); });
  std::string named = options.key + " " + options.value;
  for (const LayerOverride& rule : options.overrides) named += " " + rule.key + " " + rule.value;
  if (!flags.rotations.empty() && named.find("oscar2") == std::string::npos)
    throw Error(ErrorCode::invalid_argument, "--rotations is for oscar2, which --kv " + flags.kv_text() + " isn't");
  if (!flags.calibration.empty() && flags.no_calibration)
    throw Error(ErrorCode::invalid_argument, "--calibration and --no-calibration exclude each other; drop one");
  if (!flags.calibration.empty() && !options.automatic && !names_fitted_codec(options))
    throw Error(ErrorCode::invalid_argument,
                "--calibration serves codecs that are fitted to a model, and --kv names none: choose spectral3 or "
                "another of them, or leave it out");
  return options;
}

size_t parse_bytes(const std::string& text, const std::string& flag) {
  double value = 0;
  const char* const last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  std::string unit(end, last);
  if (unit.ends_with('B')) unit.pop_back();
  if (unit.ends_with('i')) unit.pop_back();
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  if (unit.size() == 1 && kUnits.find(char(std::toupper(unit[0]))) != std::string_view::npos)
    shift = 10 * (int(kUnits.find(char(std::toupper(unit[0])))) + 1);
  else if (!unit.empty())
    shift = -1;
  if (error != std::errc() || !(value > 0) || shift < 0 || std::ldexp(value, shift) >= 0x1p62)
    throw Error(ErrorCode::invalid_argument, flag + " takes bytes as in 300000, 512M or 2G, got '" + text + "'");
  return size_t(std::ldexp(value, shift));
}

}  // namespace kvasir::cli
