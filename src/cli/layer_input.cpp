// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/layer_input.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace kvasir::cli {
namespace {

HeadsView view(const std::vector<float>& values, int64_t heads, int64_t dim, int64_t first) {
  return {values.data() + first * heads * dim, heads * dim, dim};
}

}  // namespace

HeadsView LayerInput::keys(int64_t first) const {
  return view(k, layer.kv_heads, layer.key_dim, first);
}
HeadsView LayerInput::values(int64_t first) const {
  return view(v, layer.kv_heads, layer.value_dim, first);
}
HeadsView LayerInput::queries(int64_t first_row) const {
  return view(q, layer.heads, layer.key_dim, first_row);
}

LayerInput gaussian_input(const LayerGeometry& layer, int64_t past, int block, int batch, uint64_t seed) {
  LayerInput input{layer, past, block, batch, {}, {}, {}};
  SplitMix random(seed);
  const auto fill = [&](std::vector<float>& values, int64_t count) {
    values.resize(size_t(count));
    std::ranges::generate(values, [&] { return float(random.normal()); });
  };
  fill(input.k, input.tokens() * layer.kv_heads * layer.key_dim);
  fill(input.v, input.tokens() * layer.kv_heads * layer.value_dim);
  fill(input.q, input.rows() * layer.heads * layer.key_dim);
  return input;
}

std::vector<double> exact_attention(const LayerInput& input, int sequence, int row) {
  const LayerGeometry& layer = input.layer;
  const int64_t tokens = input.past + row + 1;
  std::vector<double> out(size_t(layer.heads) * size_t(layer.value_dim), 0.0), weights(static_cast<size_t>(tokens));
  const float* queries = input.queries(int64_t(sequence) * input.block + row).data;
  for (int head = 0; head < layer.heads; ++head) {
    const int kv_head = head / layer.group();
    const float* q = queries + int64_t(head) * layer.key_dim;
    double most = -INFINITY, sum = 0.0;
    for (int64_t t = 0; t < tokens; ++t) {
      const float* k = input.k.data() + (t * layer.kv_heads + kv_head) * layer.key_dim;
      double score = 0.0;
      for (int c = 0; c < layer.key_dim; ++c) score += double(q[c]) * double(k[c]);
      weights[size_t(t)] = layer.scale * score;
      most = std::max(most, weights[size_t(t)]);
    }
    double* o = out.data() + int64_t(head) * layer.value_dim;
    for (int64_t t = 0; t < tokens; ++t) {
      const float* v = input.v.data() + (t * layer.kv_heads + kv_head) * layer.value_dim;
      const double weight = std::exp(weights[size_t(t)] - most);
      sum += weight;
      for (int c = 0; c < layer.value_dim; ++c) o[c] += weight * double(v[c]);
    }
    for (int c = 0; c < layer.value_dim; ++c) o[c] /= sum;
  }
  return out;
}

}  // namespace kvasir::cli
