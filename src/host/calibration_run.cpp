// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/calibration_run.h"

#include <fmt/format.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/checksum.h"
#include "calibrate/position_average.h"
#include "calibrate/window_moments.h"
#include "host/rotary_probe.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Tokens = std::vector<int32_t>;

// Windows of equal length; the first token of each is the one that the model starts texts with.
std::vector<Tokens> cut_windows(const Model& model, const std::string& text, const CalibrationOptions& options) {
  const bool has_bos = llama_vocab_get_add_bos(model.vocab()) && model.bos() >= 0;
  const Tokens all = model.tokenize(text, false, false);
  const int64_t own = options.window - (has_bos ? 1 : 0);
  const int64_t count =
      std::min<int64_t>(int64_t(all.size()) / own, std::max<int64_t>(1, options.tokens / options.window));
  if (count == 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the text has {} tokens, less than one window of {}; give a longer text or --window",
                            all.size(), options.window));
  std::vector<Tokens> windows;
  for (int64_t i = 0; i < count; ++i) {
    Tokens& window = windows.emplace_back();
    if (has_bos) window.push_back(model.bos());
    window.insert(window.end(), all.begin() + i * own, all.begin() + (i + 1) * own);
  }
  return windows;
}

// An empty calibration with everything known before the first window.
Calibration start(const Model& model, const std::vector<Tokens>& windows, const CalibrationOptions& options,
                  const std::optional<std::vector<Rotary>>& rotary) {
  Calibration calibration;
  calibration.model = model.fingerprint();
  calibration.name = model.name();
  calibration.text = options.text_name;
  Tokens all;
  for (const Tokens& window : windows) all.insert(all.end(), window.begin(), window.end());
  calibration.text_hash = fmt::format("{:016x}", checksum(std::as_bytes(std::span(all))));
  calibration.window = options.window;
  calibration.positions = options.positions > 0 ? options.positions : model.trained_context();
  calibration.positions = std::max<int64_t>(calibration.positions, options.window);
  calibration.averaged = rotary.has_value();
  calibration.unfinished = true;
  calibration.sink = std::max(1, options.sink);
  calibration.recent = options.recent;
  for (const LayerGeometry& layer : model.geometry().layers) calibration.layers.emplace_back(layer);
  for (size_t i = 0; rotary && i < rotary->size(); ++i) calibration.layers[i].rotary = (*rotary)[i];
  return calibration;
}

// Where window `index` starts. Neighbours in the text lie far apart, so that a run that stops early has seen all parts.
int64_t start_of(size_t index, size_t windows, const Calibration& calibration) {
  if (windows < 2) return 0;
  size_t stride = std::max<size_t>(1, windows * 5 / 8);
  while (std::gcd(stride, windows) != 1) ++stride;
  return int64_t(index * stride % windows) * (calibration.positions - calibration.window) / int64_t(windows - 1);
}

// What a run that was stopped left, if it was this very run.
Calibration resume(Calibration fresh, const CalibrationOptions& options) {
  if (options.checkpoint.empty() || !std::filesystem::exists(options.checkpoint)) return fresh;
  Calibration left;
  try {
    left = load_calibration(options.checkpoint);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("what a stopped run left can't be used ({}): remove `{}` to start over",
                                          error.what(), options.checkpoint));
  }
  const bool same = left.model == fresh.model && left.text_hash == fresh.text_hash && left.window == fresh.window &&
                    left.positions == fresh.positions && left.averaged == fresh.averaged && left.unfinished &&
                    !left.older && left.sink == fresh.sink && left.recent == fresh.recent &&
                    left.layers.size() == fresh.layers.size() && left.tokens % left.window == 0;
  return same ? left : fresh;
}

// What fits can't be made from is refused before it is written.
void check_sums(const Calibration& calibration) {
  for (size_t i = 0; i < calibration.layers.size(); ++i)
    for (const HeadMoments& head : calibration.layers[i].heads) {
      double sum = head.attention + head.squares;
      for (const auto* sums : {&head.key, &head.query, &head.value, &head.output})
        for (const double x : *sums) sum += x;
      if (!std::isfinite(sum))
        throw Error(
            ErrorCode::unsupported,
            fmt::format("layer {} has keys, queries or values that aren't finite; calibrate with another text", i));
      if (!(head.attention > 0 && head.squares > 0))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("layer {} pays no attention outside its 16-bit windows; choose a smaller --recent or a "
                                "longer --window",
                                i));
    }
}

}  // namespace

void check_calibration(const CalibrationOptions& options) {
  if (options.window < 64)
    throw Error(ErrorCode::invalid_argument, fmt::format("--window takes 64 or more tokens, got {}", options.window));
  if (options.positions < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("--positions takes 0 or more, got {}", options.positions));
  if (options.most_seconds < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("--seconds takes 0 or more, got {}", options.most_seconds));
  if (options.sink < 0 || options.recent < 0 || std::max(1, options.sink) + options.recent >= options.window)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--sink and --recent take 0 or more tokens, less than --window of {} together, got {} and {}",
                    options.window, options.sink, options.recent));
  if (options.tokens < options.window)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--tokens must hold one window of {} or more, got {}", options.window, options.tokens));
}

Calibration run_calibration(const std::shared_ptr<Model>& model, const std::string& text,
                            const CalibrationOptions& options) {
  check_calibration(options);
  return run_calibration(model, cut_windows(*model, text, options), options);
}

Calibration run_calibration(const std::shared_ptr<Model>& model, const std::vector<Tokens>& windows,
                            const CalibrationOptions& options) {
  check_calibration(options);
  const std::optional<std::vector<Rotary>> rotary = measure_rotary(model, options.threads);
  Calibration calibration = resume(start(*model, windows, options, rotary), options);
  const auto done = size_t(calibration.tokens / calibration.window);

  std::vector<WindowMoments> current;  // of each layer
  for (const LayerGeometry& layer : model->geometry().layers)
    current.emplace_back(layer, options.window, calibration.sink, calibration.recent);
  EngineOptions engine_options;
  engine_options.cache.key = engine_options.cache.value = "f16";
  engine_options.context = options.window;
  engine_options.micro_batch = std::min(options.micro_batch, options.window);
  engine_options.threads = options.threads;
  engine_options.observe = [&](int layer, const AttentionRows& rows) {
    current[size_t(layer)].add(rows, options.threads);
  };
  Engine engine(model, engine_options);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = done; i < windows.size(); ++i) {
    const SequenceId sequence = engine.cache().create();
    engine.start_at(calibration.averaged ? 0 : start_of(i, windows.size(), calibration));
    for (int fed = 0; fed < options.window; fed += engine_options.micro_batch) {
      const int count = std::min(engine_options.micro_batch, options.window - fed);
      engine.decode(sequence, std::span(windows[i]).subspan(size_t(fed), size_t(count)));
      if (options.progress)
        options.progress(int64_t(i) * options.window + fed + count, int64_t(windows.size()) * options.window);
    }
    engine.cache().remove(sequence);
    for (size_t layer = 0; layer < current.size(); ++layer)
      current[layer].finish(calibration.layers[layer], options.threads, calibration.averaged);
    calibration.tokens += options.window;
    if (!options.checkpoint.empty() && i + 1 < windows.size()) save_calibration(calibration, options.checkpoint);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (options.most_seconds > 0 && seconds.count() > options.most_seconds) break;
  }
  check_sums(calibration);
  calibration.unfinished = false;
  if (calibration.averaged)
    for (LayerMoments& layer : calibration.layers) average_over_positions(layer, calibration.positions);
  return calibration;
}

}  // namespace kvasir
