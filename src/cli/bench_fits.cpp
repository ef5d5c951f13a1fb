// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_fits.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <utility>
#include <vector>

#include "calibrate/window_moments.h"
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

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatRows = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                             Eigen::OuterStride<Eigen::Dynamic>>;

// L^T with L L^T = sums / count - mean mean^T: rows of white noise times it have that covariance.
Eigen::MatrixXf root(const std::vector<double>& sums, double count, const Eigen::RowVectorXd& mean) {
  const Eigen::Index dim = mean.size();
  Matrix covariance = Eigen::Map<const Matrix>(sums.data(), dim, dim) / count - mean.transpose() * mean;
  // Directions that were hardly ever seen may come out below zero.
  covariance.diagonal().array() += 1e-6 * covariance.trace() / double(dim) + 1e-12;
  return Eigen::MatrixXd(covariance.llt().matrixU()).cast<float>();
}

void colour(float* first, int64_t rows, int64_t stride, const Eigen::MatrixXf& root, const Eigen::RowVectorXd& mean) {
  FloatRows values(first, rows, mean.size(), Eigen::OuterStride<Eigen::Dynamic>(stride));
  values = ((values * root).rowwise() + mean.cast<float>()).eval();
}

// What the sums of keys are without: each key gets the mean of its position.
void add_turning_means(LayerInput& input, const LayerMoments& moments) {
  const LayerGeometry& layer = input.layer;
  const std::shared_ptr<const TurningMean> turning = turning_mean(moments);
  if (!turning) return;
  std::vector<float> mean(size_t(layer.key_dim));
  for (int64_t t = 0; t < input.tokens(); ++t)
    for (int h = 0; h < layer.kv_heads; ++h) {
      turning->of_position(h, t, mean.data());
      float* key = input.k.data() + (t * layer.kv_heads + h) * layer.key_dim;
      for (size_t c = 0; c < mean.size(); ++c) key[c] += mean[c];
    }
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

void give_moments(LayerInput& input, const LayerMoments& moments) {
  const LayerGeometry& layer = input.layer;
  for (int h = 0; h < layer.kv_heads; ++h) {
    const HeadMoments& head = moments.heads.at(size_t(h));
    const Eigen::RowVectorXd mean =
        Eigen::Map<const Eigen::RowVectorXd>(head.key_sum.data(), layer.key_dim) / head.tokens;
    colour(input.k.data() + int64_t(h) * layer.key_dim, input.tokens(), int64_t(layer.kv_heads) * layer.key_dim,
           root(head.key, head.tokens, mean), mean);
    const Eigen::RowVectorXd none = Eigen::RowVectorXd::Zero(layer.value_dim);
    colour(input.v.data() + int64_t(h) * layer.value_dim, input.tokens(), int64_t(layer.kv_heads) * layer.value_dim,
           root(head.value, head.tokens, none), none);
    const Eigen::RowVectorXd zero = Eigen::RowVectorXd::Zero(layer.key_dim);
    const Eigen::MatrixXf queries = root(head.query, head.queries, zero);
    for (int g = 0; g < layer.group(); ++g)
      colour(input.q.data() + (int64_t(h) * layer.group() + g) * layer.key_dim, input.rows(),
             int64_t(layer.heads) * layer.key_dim, queries, zero);
  }
  add_turning_means(input, moments);
}

}  // namespace kvasir::cli
