// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/covariance.h"

namespace kvasir {
namespace {

Matrix mean_of(const std::vector<double>& sums, int dim, double count) {
  const Matrix m = Eigen::Map<const Matrix>(sums.data(), dim, dim) / count;
  return (m + m.transpose()) / 2;
}

}  // namespace

Matrix key_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.key, layer.key_dim, head.tokens);
}

Matrix key_covariance(const LayerMoments& layer, const HeadMoments& head) {
  const Vector mean = Eigen::Map<const Vector>(head.key_sum.data(), layer.key_dim) / head.tokens;
  return key_moment(layer, head) - mean * mean.transpose();
}

Matrix query_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.query, layer.key_dim, head.queries) * (double(layer.scale) * double(layer.scale));
}

Matrix value_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.value, layer.value_dim, head.tokens);
}

Matrix weighted_value_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.weighted_value, layer.value_dim, head.tokens);
}

Matrix output_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.output, layer.value_dim, head.queries);
}

std::vector<float> key_mean(const HeadMoments& head) {
  std::vector<float> mean;
  for (double sum : head.key_sum) mean.push_back(float(sum / head.tokens));
  return mean;
}

Matrix with_ridge(const Matrix& m, double ridge) {
  const auto dim = m.rows();
  return m + Matrix::Identity(dim, dim) * (ridge * m.trace() / double(dim));
}

}  // namespace kvasir
