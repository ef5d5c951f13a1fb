// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What `kvasir bench end-to-end` prints.
#include <fmt/format.h>

#include <algorithm>

#include "cli/end_to_end_run.h"

namespace kvasir::cli {

void print_run(const EndToEndRun& run) {
  fmt::print("{}, {} tokens of prompt, {} generated, {} threads\n\n", run.model, run.context - run.decode, run.decode,
             run.threads);
  fmt::print("{:<14} {:>6} {:>8} {:>13} {:>12}", "", "bits", "MiB", "prefill tok/s", "decode tok/s");
  for (const EndToEndFigures& other : run.figures)
    if (other.native) fmt::print("  {:>24}", "x native " + other.name);
  fmt::print("\n");
  for (const EndToEndFigures& figures : run.figures) {
    fmt::print("{:<14} {:>6.2f} {:>8.1f} {:>13.1f} {:>12.1f}", (figures.native ? "native " : "") + figures.name,
               figures.bits_per_value, double(figures.bytes) / 1048576.0, figures.prefill_tps, figures.decode_tps);
    for (const EndToEndFigures& other : run.figures) {
      if (!other.native || figures.native) continue;
      const Quartiles& ratio = figures.decode_ratio.at(other.name);
      fmt::print("  {:>24}", fmt::format("{:.2f} ({:.2f}-{:.2f}), pre {:.2f}", ratio.median, ratio.low, ratio.high,
                                         figures.prefill_ratio.at(other.name)));
    }
    fmt::print("\n");
  }
  fmt::print(
      "\nx: decode speed over that of llama.cpp's own cache, median of paired rounds (quartiles); pre: prefill\n");
}

Json run_json(const EndToEndRun& run) {
  Json codecs, native = Json::object();
  std::string top = run.figures.at(0).name;
  for (const EndToEndFigures& figures : run.figures) {
    Json json = {{"prefill_tps", figures.prefill_tps},
                 {"decode_tps", figures.decode_tps},
                 {"bytes", figures.bytes},
                 {"bits_per_value", figures.bits_per_value}};
    if (figures.native) {
      native[figures.name] = std::move(json);
      continue;
    }
    if (figures.name == "auto") top = figures.name;
    json["kv"] = figures.kv;
    json["effective"] = figures.effective;
    for (const auto& [name, ratio] : figures.decode_ratio) {
      json["decode_ratio"][name] = ratio.median;
      json["decode_ratio_quartiles"][name] = {ratio.low, ratio.high};
      json["prefill_ratio"][name] = figures.prefill_ratio.at(name);
    }
    codecs[figures.name] = std::move(json);
  }
  Json json = {{"model", run.path},
               {"context", run.context},
               {"decode_tokens", run.decode},
               {"threads", run.threads},
               {"micro_batch", run.micro_batch},
               {"sink", run.sink},
               {"recent", run.recent},
               {"codec", top}};
  json.update(codecs[top]);
  json["codecs"] = std::move(codecs);
  json["native"] = std::move(native);
  return json;
}

std::vector<EndToEndLine> end_to_end_summary(const std::vector<EndToEndRun>& runs) {
  std::vector<EndToEndLine> lines;
  for (const EndToEndRun& run : runs) {
    const EndToEndFigures* fastest = nullptr;
    for (const EndToEndFigures& figures : run.figures)
      if (figures.native && (fastest == nullptr || figures.decode_tps > fastest->decode_tps)) fastest = &figures;
    for (const EndToEndFigures& figures : run.figures) {
      if (figures.native || fastest == nullptr) continue;
      lines.push_back({run.model, figures.name, fastest->name, run.context, figures.decode_tps, fastest->decode_tps,
                       figures.decode_ratio.at(fastest->name).median, figures.prefill_ratio.at(fastest->name)});
    }
  }
  return lines;
}

void print_summary(const std::vector<EndToEndLine>& lines) {
  if (lines.empty()) return;
  size_t width = 5;
  for (const EndToEndLine& line : lines) width = std::max(width, line.model.size());
  fmt::print(
      "\nAgainst the native cache that generates fastest:\n\n{:<{}} {:>7}  {:<14} {:>12}  {:<14} {:>12} {:>7} {:>8}\n",
      "model", width, "tokens", "cache", "decode tok/s", "fastest native", "decode tok/s", "decode", "prefill");
  for (const EndToEndLine& line : lines)
    fmt::print("{:<{}} {:>7}  {:<14} {:>12.1f}  {:<14} {:>12.1f} {:>6.2f}x {:>7.2f}x\n", line.model, width,
               line.context, line.codec, line.decode_tps, line.fastest, line.fastest_tps, line.decode_ratio,
               line.prefill_ratio);
  const auto slower = std::count_if(lines.begin(), lines.end(), [](const EndToEndLine& line) {
    return line.decode_ratio < 1 || line.prefill_ratio < 1;
  });
  if (slower > 0)
    fmt::print("\n{} of {} lines are slower than llama.cpp in one of the two:\n", slower, lines.size());
  else
    fmt::print("\nNo line is slower than llama.cpp's fastest cache.\n");
  for (const EndToEndLine& line : lines)
    if (line.decode_ratio < 1 || line.prefill_ratio < 1)
      fmt::print("  {} at {} with {}: decode {:.2f}x, prefill {:.2f}x\n", line.model, line.context, line.codec,
                 line.decode_ratio, line.prefill_ratio);
}

Json summary_json(const std::vector<EndToEndLine>& lines) {
  Json all = Json::array();
  for (const EndToEndLine& line : lines)
    all.push_back({{"model", line.model},
                   {"context", line.context},
                   {"codec", line.codec},
                   {"decode_tps", line.decode_tps},
                   {"fastest_native", line.fastest},
                   {"fastest_native_decode_tps", line.fastest_tps},
                   {"decode_ratio", line.decode_ratio},
                   {"prefill_ratio", line.prefill_ratio}});
  return all;
}

}  // namespace kvasir::cli
