// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/prepared_query.h"

#include <algorithm>
#include <cmath>

namespace kvasir {
namespace {

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t j = 0; j < b.size(); ++j) sum += double(a[j]) * double(b[j]);
  return sum;
}

}  // namespace

PreparedQuery prepare_query(const VectorIndexImpl& index, const float* query) {
  const VectorEncoder& encoder = index.encoder;
  const VectorMetric metric = index.options.metric;
  PreparedQuery prepared;
  prepared.plain.assign(query, query + encoder.dim());
  if (metric == VectorMetric::cosine) {
    const double length = std::sqrt(squared_length(query, encoder.dim()));
    const float inverse = length < double(kSmallestLength) ? 0.0f : float(1.0 / length);
    for (float& channel : prepared.plain) channel *= inverse;
  }
  if (metric == VectorMetric::l2)
    for (size_t j = 0; j < index.mean.size(); ++j) prepared.plain[j] -= index.mean[j];
  prepared.mean_product = float(product(prepared.plain, index.mean));
  std::vector<float> rest = prepared.plain;
  if (!index.mean.empty()) {
    prepared.share = prepared.mean_product / float(squared_length(index.mean.data(), encoder.dim()));
    for (size_t j = 0; j < rest.size(); ++j) rest[j] -= prepared.share * index.mean[j];
  }

  std::vector<float> y(static_cast<size_t>(encoder.channels()));
  encoder.rotate(rest.data(), 1.0f, {}, y.data());
  float largest = 0;
  for (const float channel : y) largest = std::max(largest, std::abs(channel));
  prepared.value.resize(y.size());
  if (largest >= kSmallestLength) {
    const float inverse = 127.0f / largest;
    for (size_t j = 0; j < y.size(); ++j) {
      prepared.value[j] = int8_t(std::lrint(y[j] * inverse));
      prepared.sum += prepared.value[j];
    }
    prepared.factor = largest / 127.0f * encoder.table().step;
  }
  prepared.constant = prepared.mean_product;
  if (metric == VectorMetric::l2) {
    prepared.constant = -float(squared_length(prepared.plain.data(), encoder.dim()));
    prepared.factor *= 2.0f;
    prepared.share *= 2.0f;
  }
  return prepared;
}

}  // namespace kvasir
