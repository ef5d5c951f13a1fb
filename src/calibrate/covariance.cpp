// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/covariance.h"

namespace kvasir {
namespace {

Matrix mean_of(const std::vector<double>& sums, int dim, double count) {
  const Matrix m = Eigen::Map<const Matrix>(sums.data(), dim, dim) / count;
  return (m + m.transpose()) / 2;
}

// What is taken off keys before they are packed, beside what turns. Keys without a turning mean keep the rest of it.
Vector constant_mean(const LayerMoments& layer, const HeadMoments& head) {
  if (!head.key_mean.empty()) return Vector::Zero(layer.key_dim);
  return Eigen::Map<const Vector>(head.key_sum.data(), layer.key_dim) / head.tokens;
}

}  // namespace

Matrix key_covariance(const LayerMoments& layer, const HeadMoments& head) {
  const Vector mean = constant_mean(layer, head);
  return mean_of(head.key, layer.key_dim, head.tokens) - mean * mean.transpose();
}

Matrix attended_key_covariance(const LayerMoments& layer, const HeadMoments& head) {
  const Vector mean = constant_mean(layer, head);
  const Vector attended = Eigen::Map<const Vector>(head.attended_key_sum.data(), layer.key_dim) / head.attention;
  return mean_of(head.attended_key, layer.key_dim, head.attention) - attended * mean.transpose() -
         mean * attended.transpose() + mean * mean.transpose();
}

Matrix query_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.query, layer.key_dim, head.queries) * (double(layer.scale) * double(layer.scale));
}

Matrix attended_query_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.attended_query, layer.key_dim, head.attention) * (double(layer.scale) * double(layer.scale));
}

Matrix value_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.value, layer.value_dim, head.tokens);
}

Matrix attended_value_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.attended_value, layer.value_dim, head.squares);
}

Matrix proxy_value_moment(const LayerMoments& layer, const HeadMoments& head) {
  return mean_of(head.proxy_value, layer.value_dim, head.tokens);
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
  if (!(m.trace() > 0)) return Matrix::Identity(dim, dim);
  return m + Matrix::Identity(dim, dim) * (ridge * m.trace() / double(dim));
}

}  // namespace kvasir
