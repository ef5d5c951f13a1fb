// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/moments.h"

#include <utility>

namespace kvasir {

LayerMoments::LayerMoments(const LayerGeometry& geometry)
    : key_dim(geometry.key_dim), value_dim(geometry.value_dim), group(geometry.group()), scale(geometry.scale) {
  const size_t k = size_t(key_dim), v = size_t(value_dim);
  for (int h = 0; h < geometry.kv_heads; ++h) {
    HeadMoments head;
    for (auto* sums : {&head.key_sum, &head.attended_key_sum}) sums->assign(k, 0.0);
    head.value_sum.assign(v, 0.0);
    for (auto* sums : {&head.key, &head.attended_key, &head.query, &head.attended_query}) sums->assign(k * k, 0.0);
    for (auto* sums : {&head.value, &head.attended_value, &head.proxy_value, &head.output}) sums->assign(v * v, 0.0);
    heads.push_back(std::move(head));
  }
}

std::shared_ptr<const TurningMean> turning_mean(const LayerMoments& layer) {
  std::vector<std::vector<float>> means, firsts;
  for (const HeadMoments& head : layer.heads) {
    if (head.key_mean.empty()) return nullptr;
    means.push_back(head.key_mean);
    if (layer.windows == 0) continue;
    firsts.emplace_back();
    for (const double sum : head.first_key_sum) firsts.back().push_back(float(sum / layer.windows));
  }
  return std::make_shared<const TurningMean>(layer.rotary, layer.key_dim, std::move(means), std::move(firsts));
}

}  // namespace kvasir
