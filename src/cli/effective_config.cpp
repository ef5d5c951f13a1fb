// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/effective_config.h"

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "codec/fitted_map.h"
#include "kvasir/attention.h"

namespace kvasir::cli {
namespace {

constexpr float kNotableOffset = 4.0f;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

bool mean_removed(const Cache& cache, int layer) {
  const Codec& codec = cache.codec(layer, Side::key);
  if (codec.map != MapKind::fitted) return codec.center;
  return !cache.options().fitted->fit(codec.name, Side::key, layer).maps->at(0).mean.empty();
}

// What happens to an offset of this layer's keys.
std::string offset_treatment(const Cache& cache, int layer) {
  const Codec& codec = cache.codec(layer, Side::key);
  if (codec.map == MapKind::fitted && mean_removed(cache, layer)) return "removed with the calibrated mean";
  if (codec.raw()) return "kept, keys have 16 bits";
  if (codec.center) return "removed with the page mean";
  if (codec.scale_span == ScaleSpan::channel && codec.has_zero_point())
    return "held by the zero points of its channels";
  return "NOT protected (--no-protect or mean=off), expect a loss";
}

// "8 x 6, 24 x 4, 16 x 2": channels and bits of each segment.
std::string classes_text(const Codec& codec) {
  std::string text;
  for (const Segment& segment : codec.segments)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", segment.count, segment.bits);
  return text;
}

std::string layer_range(size_t first, size_t last) {
  return first == last ? fmt::format("layer {}", first) : fmt::format("layers {}-{}", first, last);
}

}  // namespace

void note_cache(const Cache& cache, int64_t context, int threads) {
  const CacheOptions& options = cache.options();
  for (const std::string& line : lines_of(cache.describe())) note("cache: " + line);
  if (options.fitted) note("cache: fitted by " + options.fitted->description());
  const CacheSize full = plan_size(cache.geometry(), options, context);
  note(fmt::format(
      "cache: first {} and last {} tokens in 16 bits; {} for {} tokens ({:.2f} bits a value, {:.1f}x less than f16)",
      options.sink, options.recent, format_bytes(full.total()), context, full.bits_per_value(),
      double(full.bytes_f16) / double(full.total())));
  if (options.budget > 0) note(fmt::format("cache: at most {}", format_bytes(options.budget)));
  const AttentionOptions attention = AttentionOptions::from_environment(threads);
  note(fmt::format("attention: {}, {} threads",
                   attention.reference ? "double-precision reference" : to_string(attention.simd), threads));
}

void note_key_offsets(const Cache& cache) {
  const std::vector<float> ratios = cache.stats().key_offset_ratio;
  for (size_t first = 0; first < ratios.size();) {
    if (!(ratios[first] > kNotableOffset)) {
      ++first;
      continue;
    }
    const std::string treatment = offset_treatment(cache, int(first));
    float low = ratios[first], high = ratios[first];
    size_t last = first;
    while (last + 1 < ratios.size() && ratios[last + 1] > kNotableOffset &&
           offset_treatment(cache, int(last + 1)) == treatment) {
      ++last;
      low = std::min(low, ratios[last]);
      high = std::max(high, ratios[last]);
    }
    const std::string size =
        first == last ? fmt::format("{:.0f}x", high) : fmt::format("{:.0f}x to {:.0f}x", low, high);
    note(fmt::format("{}: key offset {} the spread, {}", layer_range(first, last), size, treatment));
    first = last + 1;
  }
}

Json kv_json(const Cache& cache) {
  const CacheSize size = cache.size();
  return {{"codec_k", cache.options().key},
          {"codec_v", cache.options().value},
          {"bits_per_value", size.bits_per_value()},
          {"bytes", size.total()},
          {"bytes_f16", size.bytes_f16},
          {"ratio", size.total() > 0 ? double(size.bytes_f16) / double(size.total()) : 0.0},
          {"bytes_pages", size.pages},
          {"bytes_mapped", size.mapped},
          {"bytes_windows", size.windows}};
}

Json effective_json(const Cache& cache, int64_t context, int micro_batch, int threads) {
  const CacheOptions& options = cache.options();
  const AttentionOptions attention = AttentionOptions::from_environment(threads);
  Json overrides = Json::array();
  for (const LayerOverride& rule : options.overrides)
    overrides.push_back({{"first", rule.first}, {"last", rule.last}, {"k", rule.key}, {"v", rule.value}});
  return {{"codec_k", options.key},
          {"codec_v", options.value},
          {"codecs", lines_of(cache.describe())},
          {"fitted_by", options.fitted ? Json(options.fitted->description()) : Json()},
          {"overrides", overrides},
          {"protect", options.protect},
          {"sink", options.sink},
          {"recent", options.recent},
          {"budget", options.budget},
          {"context", context},
          {"micro_batch", micro_batch},
          {"threads", threads},
          {"attention", attention.reference ? "reference" : to_string(attention.simd)}};
}

Json layers_json(const Cache& cache) {
  const std::vector<float> ratios = cache.stats().key_offset_ratio;
  Json layers = Json::array();
  for (int layer = 0; layer < int(cache.geometry().layers.size()); ++layer) {
    const Codec &key = cache.codec(layer, Side::key), &value = cache.codec(layer, Side::value);
    Json entry = {{"layer", layer},
                  {"k", key.name},
                  {"v", value.name},
                  {"k_page_bits", bits_per_value(key)},
                  {"v_page_bits", bits_per_value(value)},
                  {"key_mean_removed", mean_removed(cache, layer)}};
    if (key.map == MapKind::fitted) entry["k_classes"] = classes_text(key);
    if (value.map == MapKind::fitted) entry["v_classes"] = classes_text(value);
    if (size_t(layer) < ratios.size()) entry["key_offset_ratio"] = ratios[size_t(layer)];
    if (const int window = cache.geometry().layers[size_t(layer)].window; window > 0) entry["window"] = window;
    layers.push_back(std::move(entry));
  }
  return layers;
}

}  // namespace kvasir::cli
