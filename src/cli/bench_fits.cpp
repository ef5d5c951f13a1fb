// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_fits.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "calibrate/window_moments.h"
#include "cli/layer_input.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr int kWindowTokens = 512;
constexpr int kTokensOfChannel = 16;
constexpr uint64_t kFirstSeed = 100;  // the benchmark's own input has a small one

void add_window(LayerMoments& moments, const LayerGeometry& layer, uint64_t seed) {
  const LayerInput input = gaussian_input(layer, 0, kWindowTokens, 1, seed);
  CacheOptions options;
  options.key = options.value = "f16";
  Cache cache(Geometry{{layer}}, options);
  std::vector<float> out(size_t(kWindowTokens) * size_t(layer.heads) * size_t(layer.value_dim));
  const SequenceSpan span{cache.create(), 0, kWindowTokens};
  attend(cache, 0, input.queries(0), input.keys(0), input.values(0), {&span, 1}, out.data(),
         AttentionOptions::from_environment(1));
  WindowMoments window(layer, kWindowTokens, 0, 0);
  const HeadsView outputs{out.data(), int64_t(layer.heads) * layer.value_dim, layer.value_dim};
  window.add({input.queries(0), input.keys(0), input.values(0), outputs, kWindowTokens}, 1);
  window.finish(moments, 1);
}

}  // namespace

std::shared_ptr<const CodecFits> gaussian_fits(const LayerGeometry& layer) {
  const int windows = (kTokensOfChannel * layer.key_dim + kWindowTokens - 1) / kWindowTokens;
  Calibration calibration;
  calibration.model = calibration.name = "none";
  calibration.text = "Gaussian values";
  calibration.text_hash = fmt::format("seeds {}-{}", kFirstSeed, kFirstSeed + uint64_t(windows) - 1);
  calibration.tokens = calibration.positions = int64_t(windows) * kWindowTokens;
  calibration.window = kWindowTokens;
  calibration.layers.emplace_back(layer);
  for (int i = 0; i < windows; ++i) add_window(calibration.layers[0], layer, kFirstSeed + uint64_t(i));
  return std::make_shared<const CodecFits>(std::move(calibration));
}

std::shared_ptr<const CodecFits> fits_of_file(const std::string& path, const LayerGeometry& layer) {
  Calibration calibration = load_calibration(path);
  std::vector<size_t> fitting;
  for (size_t i = 0; i < calibration.layers.size(); ++i)
    if (calibration.layers[i].key_dim == layer.key_dim && calibration.layers[i].value_dim == layer.value_dim)
      fitting.push_back(i);
  if (fitting.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the calibration `{}` is of a model with heads of {} channels; give --head-dim {}, or leave "
                    "--calibration out",
                    path, calibration.layers.at(0).key_dim, calibration.layers.at(0).key_dim));
  const size_t chosen = fitting[fitting.size() / 2];
  LayerMoments moments = std::move(calibration.layers[chosen]);
  const size_t given = moments.heads.size();
  moments.heads.resize(size_t(layer.kv_heads));
  for (size_t h = given; h < moments.heads.size(); ++h) moments.heads[h] = moments.heads[h % given];
  calibration.text = fmt::format("{}, layer {} of {}", calibration.text, chosen, calibration.name);
  calibration.layers = {std::move(moments)};
  return std::make_shared<const CodecFits>(std::move(calibration));
}

}  // namespace kvasir::cli
