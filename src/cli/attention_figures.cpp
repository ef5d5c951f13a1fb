// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What AttentionRun says of its figures.
#include <fmt/format.h>

#include "cli/attention_run.h"
#include "cli/effective_config.h"
#include "cli/ggml_rows.h"
#include "cli/text_table.h"

namespace kvasir::cli {
namespace {

Json quartiles_json(const Quartiles& values, double factor) {
  return {{"median", values.median * factor}, {"p25", values.low * factor}, {"p75", values.high * factor}};
}

}  // namespace

std::string quartiles_text(const Quartiles& values, double factor, int digits) {
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", values.median * factor, digits, values.low * factor, digits,
                     values.high * factor, digits);
}

std::vector<std::string> AttentionRun::error_titles() const {
  if (!setup_.flags.refcheck) return {};
  return {"codec error", "kernel error", "kernel/codec", "max error"};
}

std::vector<std::string> AttentionRun::error_cells(size_t method) const {
  const auto& errors = methods_[method].errors;
  if (!errors) return {};
  if (methods_[method].ggml) return {fmt::format("{:.2e}", errors->codec), "", "", ""};
  return {fmt::format("{:.2e}", errors->codec), fmt::format("{:.1e}", errors->kernel),
          fmt::format("{:.2g} %", 100 * errors->share()), fmt::format("{:.1e}", errors->max)};
}

std::vector<std::string> AttentionRun::ratio_titles() const {
  std::vector<std::string> titles;
  for (size_t b = codecs(); b < methods_.size(); ++b) titles.push_back("x " + methods_[b].name);
  return titles;
}

std::vector<std::string> AttentionRun::ratio_cells(size_t method) const {
  std::vector<std::string> cells;
  for (size_t b = codecs(); b < methods_.size() && method < codecs(); ++b)
    cells.push_back(quartiles_text(ratio(method, b), 1, 2));
  return cells;
}

std::string AttentionRun::table(const std::vector<std::string>& titles,
                                const std::function<std::vector<std::string>(size_t)>& cells) const {
  std::vector<std::vector<std::string>> rows;
  const auto add_row = [&](std::vector<std::string> row, std::initializer_list<std::vector<std::string>> parts) {
    for (const std::vector<std::string>& part : parts) row.insert(row.end(), part.begin(), part.end());
    rows.push_back(std::move(row));
  };
  add_row({"", "bits"}, {titles, error_titles(), ratio_titles()});
  for (size_t m = 0; m < methods_.size(); ++m)
    add_row({methods_[m].name, fmt::format("{:.2f}", methods_[m].bits_per_value)},
            {cells(m), error_cells(m), ratio_cells(m)});
  return text_table(rows);
}

std::string AttentionRun::conditions() const {
  std::string text = fmt::format("{} thread(s), ours {}, ggml {}; memory is read at {:.1f} GB/s; {} copies, {} rounds",
                                 setup_.options.threads, simd_text(setup_.options), ggml_simd_text(), bandwidth_ * 1e-9,
                                 setup_.copies, setup_.repeat);
  const std::string difference = simd_difference(setup_.options);
  return difference.empty() || setup_.baselines.empty() ? text : text + "\nNote: " + difference;
}

std::string AttentionRun::fits() const {
  std::string text;
  for (size_t m = 0; m < codecs(); ++m) {
    const Cache& cache = methods_[m].ours->cache();
    if (!cache.options().fitted) continue;
    const Json layer = layers_json(cache)[0];
    std::string sides;
    if (layer.contains("k_classes")) sides += " keys " + layer["k_classes"].get<std::string>();
    if (layer.contains("v_classes"))
      sides += std::string(sides.empty() ? "" : ",") + " values " + layer["v_classes"].get<std::string>();
    text += fmt::format("{}:{}\n", methods_[m].name, sides);
  }
  if (text.empty()) return text;
  return fmt::format("Channels x bits, fitted by {}:\n{}", setup_.fits->description(), text);
}

Json AttentionRun::figures(size_t m) const {
  const AttentionMethod& method = methods_[m];
  Json json = {{"ns_per_token", ns_per_token(m)},
               {"gbps", gbps(m)},
               {"stream_share", stream_share(m)},
               {"gflops", gflops(m)},
               {"step_us", quartiles_json(seconds_of(m), 1e6)},
               {"bytes", method.bytes},
               {"bits_per_value", method.bits_per_value},
               {"codec_error", nullptr}};
  if (method.errors) json["codec_error"] = method.errors->codec;
  if (method.errors && method.ours) {
    json["kernel_error"] = method.errors->kernel;
    json["kernel_share"] = method.errors->share();
    json["max_error"] = method.errors->max;
  }
  if (!method.append_seconds.empty()) {
    const Quartiles append = quartiles(method.append_seconds);
    json["encode_us"] = quartiles_json(append, 1e6);
    json["encode_share"] = append.median / seconds_of(m).median;
  }
  return json;
}

Json AttentionRun::json() const {
  const AttentionFlags& flags = setup_.flags;
  Json codec_figures, baselines = Json::object();
  for (size_t m = 0; m < codecs(); ++m) {
    Json json = figures(m);
    json["layer"] = layers_json(methods_[m].ours->cache())[0];
    json["effective"] =
        effective_json(methods_[m].ours->cache(), setup_.tokens(), setup_.block, setup_.options.threads);
    for (const char* name : {"ggml-f16", "ggml-q8_0", "ggml-q4_0"}) json["ratio"][name] = nullptr;
    for (size_t b = codecs(); b < methods_.size(); ++b) {
      const Quartiles of = ratio(m, b);
      json["ratio"][methods_[b].name] = of.median;
      json["ratio_quartiles"][methods_[b].name] = {of.low, of.high};
    }
    codec_figures[methods_[m].name] = std::move(json);
  }
  for (size_t b = codecs(); b < methods_.size(); ++b) baselines[methods_[b].name] = figures(b);
  Json json = codec_figures[methods_[0].name];
  json["routine"] = flags.routine;
  json["codec"] = methods_[0].name;
  json["shape"] = {{"heads", flags.heads},      {"kv_heads", flags.kv_heads}, {"head_dim", flags.head_dim},
                   {"tokens", setup_.tokens()}, {"past", setup_.past},        {"block", setup_.block},
                   {"batch", setup_.sequences}, {"sink", flags.cache.sink},   {"recent", flags.cache.recent}};
  json["threads"] = setup_.options.threads;
  json["simd"] = simd_text(setup_.options);
  json["ggml_simd"] = ggml_simd_text();
  json["same_simd"] = simd_difference(setup_.options).empty();
  json["stream_gbps"] = bandwidth_ * 1e-9;
  json["copies"] = setup_.copies;
  json["repeat"] = setup_.repeat;
  json["codecs"] = std::move(codec_figures);
  json["baselines"] = std::move(baselines);
  return json;
}

}  // namespace kvasir::cli
