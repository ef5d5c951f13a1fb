// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/query_rows.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kvasir {
namespace {

// y [rows, width] = x [rows, count] times matrix [count, width]: rows of the matrix, 64 at a time, take the place of a
// page of values.
void multiply(const Kernels& kernels, const float* x, int rows, int count, const float* matrix, int width, float* y) {
  static thread_local std::vector<float> weights;
  weights.resize(size_t(rows) * kPageTokens);
  std::fill(y, y + rows * width, 0.0f);
  for (int first = 0; first < count; first += kPageTokens) {
    const int some = std::min(kPageTokens, count - first);
    for (int r = 0; r < rows; ++r) std::copy_n(x + r * count + first, some, weights.data() + r * kPageTokens);
    kernels.tile_gather(weights.data(), rows, some, matrix + first * width, width, y);
  }
}

}  // namespace

void map_back(const Kernels& kernels, const ChannelMap& map, const float* y, int rows, float* x) {
  const FittedMap* fitted = map.fitted();
  if (!fitted) {
    for (int r = 0; r < rows; ++r) map.inverse(y + r * map.mapped_dim(), x + r * map.dim());
    return;
  }
  multiply(kernels, y, rows, fitted->mapped_dim, fitted->dual.data(), fitted->dim, x);
}

ChannelMap map_of(const HeadView& view, Side side) {
  const LayerCodecs& codecs = *view.codecs;
  const SideLayout& layout = side == Side::key ? codecs.key : codecs.value;
  if (view.all_pages() == 0) return ChannelMap(layout, view.head);
  return ChannelMap(layout, view.head,
                    channel_order(layout, view.page(0) + (side == Side::key ? 0 : codecs.key.bytes)));
}

void QueryRows::read(const Kernels& kernels, const HeadView& view, const QueryBlock& block) {
  const ChannelMap map = map_of(view, Side::key);
  const int group = view.layer->group(), dim = view.layer->key_dim, mapped_dim = view.codecs->key.mapped_dim();
  const float* mean = map.mean();
  count = block.tokens * group;
  plain.resize(size_t(count) * size_t(dim));
  mapped.resize(size_t(count) * size_t(mapped_dim));
  means.resize(mean ? size_t(count) : 0);
  sums.assign(size_t(count), 0.0f);
  const FittedMap* fitted = map.fitted();
  for (int r = 0; r < count; ++r) {
    float* q = plain.data() + r * dim;
    const float* from = block.row(r, group);
    float probe = 0;
    for (int c = 0; c < dim; ++c) {
      q[c] = from[c] * view.layer->scale;
      probe += q[c] * 0.0f;
    }
    // What isn't a number stays none: the integer kernels can't carry it, so the row's sum does.
    if (!(probe == 0)) {
      std::fill(q, q + dim, 0.0f);
      sums[size_t(r)] = std::numeric_limits<float>::quiet_NaN();
    }
    if (!fitted) map.query(q, mapped.data() + r * mapped_dim);
    if (mean) means[size_t(r)] = std::inner_product(q, q + dim, mean, 0.0f);
  }
  if (fitted) {
    const std::vector<float>& matrix = view.codecs->key.query_rows[size_t(view.head)];
    multiply(kernels, plain.data(), count, dim, matrix.data(), mapped_dim, mapped.data());
  }
}

}  // namespace kvasir
