// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/moments.h"

#include <Eigen/Core>

#include "base/parallel.h"

namespace kvasir {
namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

Rows read_rows(const HeadsView& view, int first, int tokens, int head, int dim) {
  Rows rows(tokens, dim);
  for (int t = 0; t < tokens; ++t) {
    const float* from = view.data + (first + t) * view.token_stride + head * view.head_stride;
    for (int c = 0; c < dim; ++c) rows(t, c) = double(from[c]);
  }
  return rows;
}

Matrix whole(std::vector<double>& sums, int dim) {
  return {sums.data(), dim, dim};
}

// Both triangles, so that sums compare and store as they are.
void add_products(std::vector<double>& sums, const Rows& x) {
  Rows product = Rows::Zero(x.cols(), x.cols());
  product.selfadjointView<Eigen::Lower>().rankUpdate(x.transpose());
  product.triangularView<Eigen::StrictlyUpper>() = product.transpose();
  whole(sums, int(x.cols())) += product;
}

void add_head(LayerMoments& moments, const AttentionRows& rows, int skip, int head) {
  HeadMoments& sums = moments.heads[size_t(head)];
  const int tokens = rows.tokens - skip, group = moments.group;
  const Rows k = read_rows(rows.k, skip, tokens, head, moments.key_dim);
  const Rows v = read_rows(rows.v, skip, tokens, head, moments.value_dim);
  sums.tokens += tokens;
  sums.queries += double(tokens) * group;
  std::vector<double> metric(sums.query.size(), 0.0);  // of these rows alone
  for (int g = 0; g < group; ++g) {
    add_products(metric, read_rows(rows.q, skip, tokens, head * group + g, moments.key_dim));
    add_products(sums.output, read_rows(rows.out, skip, tokens, head * group + g, moments.value_dim));
  }
  for (size_t i = 0; i < metric.size(); ++i) sums.query[i] += metric[i];
  for (int t = 0; t < tokens; ++t) {
    for (int c = 0; c < moments.key_dim; ++c) sums.key_sum[size_t(c)] += k(t, c);
    for (int c = 0; c < moments.value_dim; ++c) sums.value_sum[size_t(c)] += v(t, c);
  }
  add_products(sums.key, k);
  add_products(sums.value, v);
  const Eigen::VectorXd energy = (k * whole(metric, moments.key_dim)).cwiseProduct(k).rowwise().sum();
  const double mean = energy.mean();
  if (mean > 0) add_products(sums.weighted_value, (energy / mean).cwiseSqrt().asDiagonal() * v);
}

}  // namespace

LayerMoments::LayerMoments(const LayerGeometry& geometry)
    : key_dim(geometry.key_dim), value_dim(geometry.value_dim), group(geometry.group()), scale(geometry.scale) {
  const size_t k = size_t(key_dim), v = size_t(value_dim);
  for (int h = 0; h < geometry.kv_heads; ++h) {
    HeadMoments head;
    head.key_sum.assign(k, 0.0);
    head.value_sum.assign(v, 0.0);
    for (auto* sums : {&head.key, &head.query}) sums->assign(k * k, 0.0);
    for (auto* sums : {&head.value, &head.weighted_value, &head.output}) sums->assign(v * v, 0.0);
    heads.push_back(std::move(head));
  }
}

void add_moments(LayerMoments& moments, const AttentionRows& rows, int skip, int threads) {
  if (rows.tokens <= skip) return;
  parallel_for(int(moments.heads.size()), threads, [&](int head, int) { add_head(moments, rows, skip, head); });
}

}  // namespace kvasir
