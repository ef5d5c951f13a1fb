// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/layer_codecs.h"

#include <algorithm>
#include <string>

#include "codec/fitted_map.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

int absolute_layer(int layer, int layers) {
  return layer < 0 ? layers + layer : layer;
}

void check(const Geometry& geometry, const CacheOptions& options) {
  if (geometry.layers.empty()) throw Error(ErrorCode::invalid_argument, "the model has no attention layers");
  if (options.sink < 0 || options.recent < 0)
    throw Error(ErrorCode::invalid_argument, "--sink and --recent take 0 or more tokens, got " +
                                                 std::to_string(options.sink) + " and " +
                                                 std::to_string(options.recent));
  const int layers = int(geometry.layers.size());
  if (options.fitted && options.fitted->layers() != layers)
    throw Error(ErrorCode::invalid_argument, "the calibration is of another model: it has " +
                                                 std::to_string(options.fitted->layers()) + " layers, the model " +
                                                 std::to_string(layers));
  for (const LayerOverride& rule : options.overrides) {
    const int first = absolute_layer(rule.first, layers), last = absolute_layer(rule.last, layers);
    if (first < 0 || last >= layers || first > last)
      throw Error(ErrorCode::invalid_argument, "--kv-layers names layers " + std::to_string(rule.first) + " to " +
                                                   std::to_string(rule.last) + ", the model has 0 to " +
                                                   std::to_string(layers - 1));
  }
}

SideLayout fitted_side(const std::string& name, Side side, const LayerGeometry& shape, int layer,
                       const CacheOptions& options) {
  if (!options.fitted)
    throw Error(ErrorCode::invalid_argument, "codec " + name +
                                                 " is fitted to a model: give --calibration FILE, which kvasir "
                                                 "calibrate writes");
  const FittedCodec fitted = options.fitted->fit(name, side, layer);
  const int dim = side == Side::key ? shape.key_dim : shape.value_dim;
  if (fitted.codec.dim != dim || int(fitted.maps->size()) != shape.kv_heads)
    throw Error(ErrorCode::invalid_argument,
                "the calibration is of another model: layer " + std::to_string(layer) + " has " +
                    std::to_string(shape.kv_heads) + " heads of " + std::to_string(dim) + " channels, not " +
                    std::to_string(fitted.maps->size()) + " of " + std::to_string(fitted.codec.dim));
  SideLayout layout(fitted.codec, fitted.maps);
  layout.turning = fitted.turning;
  return layout;
}

SideLayout side_layout(const std::string& name, Side side, const LayerGeometry& shape, int layer,
                       const CacheOptions& options) {
  const int dim = side == Side::key ? shape.key_dim : shape.value_dim;
  if (dim > kMaxHeadDim)
    throw Error(ErrorCode::unsupported, "heads of " + std::to_string(dim) + " channels can't be cached: at most " +
                                            std::to_string(kMaxHeadDim));
  if (is_fitted_codec(name)) return fitted_side(name, side, shape, layer, options);
  return SideLayout(options.protect ? make_codec(name, side, dim) : make_unprotected_codec(name, side, dim));
}

}  // namespace

std::vector<LayerCodecs> resolve_codecs(const Geometry& geometry, const CacheOptions& options) {
  check(geometry, options);
  const int layers = int(geometry.layers.size());
  std::vector<LayerCodecs> resolved;
  for (int layer = 0; layer < layers; ++layer) {
    std::string key = options.key, value = options.value;
    for (const LayerOverride& rule : options.overrides)
      if (layer >= absolute_layer(rule.first, layers) && layer <= absolute_layer(rule.last, layers)) {
        key = rule.key;
        value = rule.value;
      }
    const LayerGeometry& shape = geometry.layers[size_t(layer)];
    resolved.push_back(
        {side_layout(key, Side::key, shape, layer, options), side_layout(value, Side::value, shape, layer, options)});
  }
  return resolved;
}

int recent_capacity(const CacheOptions& options) {
  return options.recent + 2 * kPageTokens;
}

WindowRows window_rows(const CacheOptions& options, int64_t tokens) {
  const auto rows = [](int64_t wanted, int most) {
    const int64_t steps = (std::max<int64_t>(0, wanted) + kPageTokens - 1) / kPageTokens;
    return int(std::min<int64_t>(steps * kPageTokens, most));
  };
  return {rows(tokens, options.sink), rows(tokens - options.sink, recent_capacity(options))};
}

size_t window_bytes(const LayerGeometry& layer, const WindowRows& rows) {
  return 2 * size_t(rows.sink + rows.recent) * size_t(layer.kv_heads) * size_t(layer.key_dim + layer.value_dim);
}

int64_t packed_boundary(int64_t position, int64_t first, int recent) {
  const int64_t block = position / kPageTokens * kPageTokens;
  return first + kPageTokens * (std::max<int64_t>(0, block - first - recent) / kPageTokens);
}

PageCount page_count(const LayerGeometry& layer, int64_t first, int recent, int64_t tokens) {
  if (tokens <= 0) return {};
  const int64_t last_block = (tokens - 1) / kPageTokens * kPageTokens;
  PageCount count;
  count.packed = (packed_boundary(last_block, first, recent) - first) / kPageTokens;
  if (layer.window > 0) {
    // Queries from last_block on see positions > last_block - window: pages that end at or before are gone.
    const int64_t unseen = last_block - layer.window + 1 - first;
    count.dropped = std::clamp<int64_t>(unseen / kPageTokens, 0, count.packed);
  }
  return count;
}

CacheSize plan_size(const Geometry& geometry, const CacheOptions& options, int64_t tokens) {
  const std::vector<LayerCodecs> codecs = resolve_codecs(geometry, options);
  CacheSize size;
  for (size_t i = 0; i < codecs.size(); ++i) {
    const LayerGeometry& layer = geometry.layers[i];
    size.pages += size_t(page_count(layer, options.sink, options.recent, tokens).live()) * size_t(layer.kv_heads) *
                  codecs[i].page_bytes();
    size.windows += window_bytes(layer, window_rows(options, tokens));
    const int64_t seen = layer.window > 0 ? std::min<int64_t>(tokens, layer.window) : tokens;
    size.bytes_f16 += 2 * size_t(seen) * size_t(layer.kv_heads) * size_t(layer.key_dim + layer.value_dim);
  }
  return size;
}

int64_t plan_max_tokens(const Geometry& geometry, const CacheOptions& options, size_t budget) {
  constexpr int64_t kMost = int64_t(1) << 40;
  if (plan_size(geometry, options, 1).total() > budget) return 0;
  int64_t low = 1, high = kMost;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (plan_size(geometry, options, middle).total() <= budget ? low : high) = middle;
  }
  return low;
}

}  // namespace kvasir
