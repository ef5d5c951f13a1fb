// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/calibrate/sample_layer.h"

#include <Eigen/QR>
#include <cmath>
#include <memory>

#include "base/random.h"
#include "calibrate/window_moments.h"
#include "codec/page_codec.h"

namespace kvasir::test {
namespace {

std::vector<double> plain(const Eigen::MatrixXd& symmetric, double count) {
  const Eigen::MatrixXd sums = symmetric * count;
  return {sums.data(), sums.data() + sums.size()};
}

std::vector<double> plain_vector(const Eigen::VectorXd& mean, double count) {
  const Eigen::VectorXd sums = mean * count;
  return {sums.data(), sums.data() + sums.size()};
}

Eigen::MatrixXd second_moment(const GaussianSource& source) {
  return source.covariance() + source.mean() * source.mean().transpose();
}

}  // namespace

GaussianSource::GaussianSource(int dim, double strongest, double decay, uint64_t seed)
    : mean_(Eigen::VectorXd::Zero(dim)) {
  SplitMix random(seed);
  Eigen::MatrixXd gaussian(dim, dim);
  for (int i = 0; i < dim * dim; ++i) gaussian.data()[i] = random.normal();
  a_ = Eigen::HouseholderQR<Eigen::MatrixXd>(gaussian).householderQ();
  for (int j = 0; j < dim; ++j) a_.col(j) *= std::sqrt(strongest * std::pow(decay, j));
}

std::vector<float> GaussianSource::rows(int count, uint64_t seed) const {
  SplitMix random(seed);
  std::vector<float> rows;
  Eigen::VectorXd g(dim());
  for (int t = 0; t < count; ++t) {
    for (int c = 0; c < dim(); ++c) g[c] = random.normal();
    const Eigen::VectorXd x = mean_ + a_ * g;
    for (int c = 0; c < dim(); ++c) rows.push_back(float(x[c]));
  }
  return rows;
}

LayerMoments exact_moments(const GaussianSource& queries, const GaussianSource& keys, const GaussianSource& values,
                           float scale) {
  LayerGeometry geometry{
      .heads = 1, .kv_heads = 1, .key_dim = keys.dim(), .value_dim = values.dim(), .scale = scale, .sink_logits = {}};
  LayerMoments layer(geometry);
  HeadMoments& head = layer.heads[0];
  constexpr double kTokens = 1000;
  head.tokens = head.queries = head.attention = head.squares = kTokens;
  head.key_sum = head.attended_key_sum = plain_vector(keys.mean(), kTokens);
  head.value_sum = plain_vector(values.mean(), kTokens);
  head.key = head.attended_key = plain(second_moment(keys), kTokens);
  head.query = head.attended_query = plain(second_moment(queries), kTokens);
  head.value = head.attended_value = head.proxy_value = head.output = plain(second_moment(values), kTokens);
  return layer;
}

AttentionRows SampleLayer::rows(int first, int count) const {
  const auto view = [&](const std::vector<float>& values, int heads, int dim) {
    return HeadsView{values.data() + size_t(first) * size_t(heads) * size_t(dim), heads * dim, dim};
  };
  return {view(q, geometry.heads, geometry.key_dim), view(k, geometry.kv_heads, geometry.key_dim),
          view(v, geometry.kv_heads, geometry.value_dim), view(out, geometry.heads, geometry.value_dim), count};
}

SampleLayer sample_layer(const LayerGeometry& geometry, int tokens, uint64_t seed) {
  SampleLayer layer;
  layer.geometry = geometry;
  layer.tokens = tokens;
  const GaussianSource queries(geometry.key_dim, 2, 0.9, seed), keys(geometry.key_dim, 3, 0.95, seed + 1),
      values(geometry.value_dim, 1, 0.97, seed + 2);
  layer.q = queries.rows(tokens * geometry.heads, seed + 3);
  layer.k = keys.rows(tokens * geometry.kv_heads, seed + 4);
  layer.v = values.rows(tokens * geometry.kv_heads, seed + 5);
  const int dim = geometry.value_dim;
  for (int t = 0; t < tokens; ++t)
    for (int head = 0; head < geometry.heads; ++head) {
      const std::vector<double> p = attention_of(layer, t, head);
      for (int c = 0; c < dim; ++c) {
        double sum = 0;
        for (size_t s = 0; s < p.size(); ++s)
          sum += p[s] *
                 layer.v[(s * size_t(geometry.kv_heads) + size_t(head / geometry.group())) * size_t(dim) + size_t(c)];
        layer.out.push_back(float(sum));
      }
    }
  return layer;
}

LayerMoments moments_of(const SampleLayer& layer, int sink, int recent) {
  LayerMoments moments(layer.geometry);
  WindowMoments window(layer.geometry, layer.tokens, sink, recent);
  window.add(layer.rows(0, layer.tokens), 1);
  window.finish(moments, 1);
  return moments;
}

std::vector<double> attention_of(const SampleLayer& layer, int query, int query_head) {
  const LayerGeometry& geometry = layer.geometry;
  const int dim = geometry.key_dim, head = query_head / geometry.group();
  const float* q = layer.q.data() + (query * geometry.heads + query_head) * dim;
  std::vector<double> p(size_t(query) + 1, 0.0);
  double sum = geometry.sink_logits.empty() ? 0 : std::exp(double(geometry.sink_logits[size_t(query_head)]));
  for (int t = 0; t <= query; ++t) {
    if (geometry.window > 0 && t <= query - geometry.window) continue;
    const float* k = layer.k.data() + (t * geometry.kv_heads + head) * dim;
    double score = 0;
    for (int c = 0; c < dim; ++c) score += double(q[c]) * double(k[c]);
    score *= double(geometry.scale);
    if (geometry.softcap > 0) score = double(geometry.softcap) * std::tanh(score / double(geometry.softcap));
    sum += p[size_t(t)] = std::exp(score);
  }
  for (double& share : p) share /= sum;
  return p;
}

double coding_error(const Codec& codec, std::shared_ptr<const FittedMaps> maps, const Eigen::MatrixXd& metric,
                    const std::vector<float>& rows) {
  const SideLayout layout(codec, std::move(maps));
  const size_t page_floats = size_t(kPageTokens) * size_t(codec.dim);
  std::vector<std::byte> page(layout.bytes);
  std::vector<float> decoded(page_floats);
  double error = 0;
  for (size_t first = 0; first < rows.size(); first += page_floats) {
    encode_page(layout, 0, rows.data() + first, page.data());
    decode_page(layout, 0, page.data(), decoded.data());
    for (size_t i = 0; i < page_floats; i += size_t(codec.dim)) {
      Eigen::VectorXd e(codec.dim);
      for (int c = 0; c < codec.dim; ++c) e[c] = double(decoded[i + size_t(c)]) - double(rows[first + i + size_t(c)]);
      error += e.dot(metric * e);
    }
  }
  return error * double(codec.dim) / double(rows.size());
}

double coding_error(const FittedCodec& fitted, const Eigen::MatrixXd& metric, const std::vector<float>& rows) {
  return coding_error(fitted.codec, fitted.maps, metric, rows);
}

}  // namespace kvasir::test
