// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/query_rows.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kvasir {
namespace {

// From here on a fitted matrix is worth being turned into tiles.
constexpr int kTileRows = 16;

// y_r = T^-T q_r: the rows of the dual matrix, 64 at a time, take the place of a page of keys.
void map_queries(const Kernels& kernels, const FittedMap& map, const float* q, int rows, float* y) {
  static thread_local std::vector<float> tile, products;
  tile.resize(size_t(map.dim) * kPageTokens);
  products.resize(size_t(rows) * kPageTokens);
  for (int first = 0; first < map.mapped_dim; first += kPageTokens) {
    const int count = std::min(kPageTokens, map.mapped_dim - first);
    if (count < kPageTokens) std::fill(tile.begin(), tile.end(), 0.0f);
    for (int t = 0; t < count; ++t)
      for (int c = 0; c < map.dim; ++c) tile[size_t(c * kPageTokens + t)] = map.dual[size_t((first + t) * map.dim + c)];
    kernels.tile_scores(q, rows, map.dim, tile.data(), products.data());
    for (int r = 0; r < rows; ++r)
      std::copy_n(products.data() + r * kPageTokens, count, y + r * map.mapped_dim + first);
  }
}

}  // namespace

void map_back(const Kernels& kernels, const ChannelMap& map, const float* y, int rows, float* x) {
  const FittedMap* fitted = map.fitted();
  if (!fitted) {
    for (int r = 0; r < rows; ++r) map.inverse(y + r * map.mapped_dim(), x + r * map.dim());
    return;
  }
  static thread_local std::vector<float> weights;
  weights.resize(size_t(rows) * kPageTokens);
  std::fill(x, x + rows * fitted->dim, 0.0f);
  for (int first = 0; first < fitted->mapped_dim; first += kPageTokens) {
    const int count = std::min(kPageTokens, fitted->mapped_dim - first);
    for (int r = 0; r < rows; ++r)
      std::copy_n(y + r * fitted->mapped_dim + first, count, weights.data() + r * kPageTokens);
    kernels.tile_gather(weights.data(), rows, count, fitted->dual.data() + first * fitted->dim, fitted->dim, x);
  }
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
  const bool tiled = map.fitted() && count >= kTileRows;
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
    if (!tiled) map.query(q, mapped.data() + r * mapped_dim);
    if (mean) means[size_t(r)] = std::inner_product(q, q + dim, mean, 0.0f);
  }
  if (tiled) map_queries(kernels, *map.fitted(), plain.data(), count, mapped.data());
}

}  // namespace kvasir
