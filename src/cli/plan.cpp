// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir plan: what the cache of a model will take, from the file's metadata, without loading weights.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cache/layer_codecs.h"
#include "cli/cache_flags.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"
#include "host/fitted_codecs.h"
#include "host/plan_geometry.h"
#include "kvasir/engine.h"

namespace kvasir::cli {
namespace {

struct PlanFlags {
  std::string model;
  CacheFlags cache;
  std::string memory;
  int64_t context = 4096;
  bool codec_given = false;
  bool json = false;
};

struct Parts {
  size_t key_pages = 0, value_pages = 0, windows = 0;
  size_t total() const { return key_pages + value_pages + windows; }
};

// plan_size, told apart by side.
Parts parts_of(const Geometry& geometry, const CacheOptions& options, int64_t tokens) {
  Parts parts;
  const std::vector<LayerCodecs> codecs = resolve_codecs(geometry, options);
  for (size_t i = 0; i < codecs.size(); ++i) {
    const LayerGeometry& layer = geometry.layers[i];
    const size_t pages =
        size_t(page_count(layer, options.sink, options.recent, tokens).live()) * size_t(layer.kv_heads);
    parts.key_pages += pages * codecs[i].key.bytes;
    parts.value_pages += pages * codecs[i].value.bytes;
    parts.windows += window_bytes(layer, window_rows(options, tokens));
  }
  return parts;
}

// Bits of a value in a packed page, over all layers.
double page_bits(const Geometry& geometry, const CacheOptions& options) {
  const std::vector<LayerCodecs> codecs = resolve_codecs(geometry, options);
  double bits = 0, values = 0;
  for (size_t i = 0; i < codecs.size(); ++i) {
    const LayerGeometry& layer = geometry.layers[i];
    bits += 8.0 * double(codecs[i].page_bytes()) * layer.kv_heads;
    values += double(kPageTokens) * layer.kv_heads * (layer.key_dim + layer.value_dim);
  }
  return bits / values;
}

double ratio(const CacheSize& size) {
  return double(size.bytes_f16) / double(size.total());
}

void print_row(const std::string& name, const CacheSize& size, int64_t most) {
  fmt::print("{:<24} {:>10} {:>10} {:>10} {:>8.2f}x {:>10.3f}", name, format_bytes(size.total()),
             format_bytes(size.pages), format_bytes(size.windows), ratio(size), size.bits_per_value());
  if (most >= 0) fmt::print(" {:>12}", most);
  fmt::print("\n");
}

void plan(const PlanFlags& flags) {
  if (flags.model.empty()) throw Error(ErrorCode::invalid_argument, kNoModel);
  if (flags.context < 1 || flags.context > INT32_MAX)
    throw Error(ErrorCode::invalid_argument, fmt::format("-c takes 1 to {} tokens, got {}", INT32_MAX, flags.context));
  CacheOptions options = cache_options(flags.cache);
  const size_t memory = flags.memory.empty() ? 0 : parse_bytes(flags.memory, "--memory");
  const std::string path = resolve_model(flags.model, note);
  options = with_fitted_codecs(std::move(options), path);
  const Geometry geometry = geometry_from_gguf(path);
  const CacheSize size = plan_size(geometry, options, flags.context);
  const Parts parts = parts_of(geometry, options, flags.context);
  if (parts.total() != size.total()) throw Error(ErrorCode::internal, "the plan's parts don't add up to its sum");
  const auto most_tokens = [&](const CacheOptions& asked) {
    return memory > 0 ? plan_max_tokens(geometry, asked, memory) : -1;
  };

  if (!flags.json) {
    fmt::print("{} tokens, {} attention layers, f16 takes {}\n", flags.context, geometry.layers.size(),
               format_bytes(size.bytes_f16));
    fmt::print("{:<24} {:>10} {:>10} {:>10} {:>9} {:>10}{}\n", "--kv", "bytes", "pages", "windows", "ratio", "bits",
               memory > 0 ? fmt::format(" {:>12}", "max context") : "");
    std::string asked = options.key == options.value ? options.key : options.key + "," + options.value;
    if (!options.tuned.empty()) asked = "@" + options.tuned;
    print_row(flags.codec_given ? asked : asked + " (auto)", size, most_tokens(options));
    if (flags.codec_given) return;
    for (const std::string& name : codec_names()) {
      CacheOptions other = options;
      other.key = other.value = name;
      try {
        print_row(name, plan_size(geometry, other, flags.context), most_tokens(other));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
        fmt::print("{:<24} {}\n", name, error.what());
      }
    }
    return;
  }
  Json windowed = Json::array();
  for (size_t i = 0; i < geometry.layers.size(); ++i)
    if (geometry.layers[i].window > 0) windowed.push_back({{"layer", i}, {"window", geometry.layers[i].window}});
  Json result = {
      {"bytes", size.total()},
      {"bytes_f16", size.bytes_f16},
      {"ratio", ratio(size)},
      {"bits_per_value", size.bits_per_value()},
      {"page_bits_per_value", page_bits(geometry, options)},
      {"parts", {{"key_pages", parts.key_pages}, {"value_pages", parts.value_pages}, {"windows", parts.windows}}},
      {"context", flags.context},
      {"codec_k", options.key},
      {"codec_v", options.value},
      {"sink", options.sink},
      {"recent", options.recent},
      {"protect", options.protect},
      {"layers", geometry.layers.size()},
      {"windowed_layers", windowed},
      {"model", path}};
  if (memory > 0) {
    result["memory"] = memory;
    result["max_context"] = most_tokens(options);
  }
  print_json(result);
}

}  // namespace

void add_plan(CLI::App& program) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = program.add_subcommand("plan", "what the cache will take, without loading weights");
  command->add_option("-m,--model", flags->model, "a GGUF file or a small model's name");
  command->add_option("-c,--ctx-size", flags->context, "tokens of context")->capture_default_str();
  add_cache_flags(*command, flags->cache);
  command->add_option("--memory", flags->memory, "also say how many tokens fit into this many bytes, as in 2G");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, command] {
    for (const char* name : {"--kv", "--cache-type-k", "--cache-type-v"})
      flags->codec_given = flags->codec_given || command->count(name) > 0;
    plan(*flags);
  });
}

}  // namespace kvasir::cli
