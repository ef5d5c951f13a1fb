// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Random K, V and Q for one layer, a dense double reference over them, and a cache to feed them to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "attention/kernels.h"
#include "base/random.h"
#include "cache/cache_impl.h"
#include "kvasir/attention.h"

namespace kvasir {

struct Stream {
  LayerGeometry layer;
  int tokens;
  std::vector<float> q, k, v;  // [tokens, heads, dim]

  Stream(LayerGeometry shape, int count, uint64_t seed) : layer(std::move(shape)), tokens(count) {
    SplitMix random(seed);
    const auto fill = [&](std::vector<float>& x, int heads, int dim) {
      x.resize(size_t(count) * size_t(heads) * size_t(dim));
      for (float& value : x) value = float(random.normal());
    };
    fill(q, layer.heads, layer.key_dim);
    fill(k, layer.kv_heads, layer.key_dim);
    fill(v, layer.kv_heads, layer.value_dim);
  }
  size_t out_size() const { return size_t(layer.heads) * size_t(layer.value_dim); }

  // Feeds tokens [first, first + count) to a sequence of a one-layer cache; returns [count, heads, value_dim].
  std::vector<float> feed(Cache& cache, SequenceId sequence, int first, int count,
                          const AttentionOptions& options) const {
    std::vector<float> out(size_t(count) * out_size());
    const SequenceSpan span{sequence, 0, count};
    attend(cache, 0, view(q, layer.heads, layer.key_dim, first), view(k, layer.kv_heads, layer.key_dim, first),
           view(v, layer.kv_heads, layer.value_dim, first), {&span, 1}, out.data(), options);
    return out;
  }
  std::vector<float> feed_in_chunks(Cache& cache, SequenceId sequence, int chunk, const AttentionOptions& options,
                                    int first = 0, int last = -1) const {
    std::vector<float> out;
    if (last < 0) last = tokens;
    for (int t = first; t < last; t += chunk) {
      const std::vector<float> part = feed(cache, sequence, t, std::min(chunk, last - t), options);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

  static HeadsView view(const std::vector<float>& x, int heads, int dim, int first) {
    return {x.data() + size_t(first) * size_t(heads) * size_t(dim), int64_t(heads) * dim, dim};
  }

  // Exact attention of every token over the uncompressed past, in double.
  std::vector<float> dense() const {
    std::vector<float> out(size_t(tokens) * out_size());
    const int group = layer.group(), dk = layer.key_dim, dv = layer.value_dim;
    for (int p = 0; p < tokens; ++p)
      for (int h = 0; h < layer.heads; ++h) {
        const float* query = &q[(size_t(p) * size_t(layer.heads) + size_t(h)) * size_t(dk)];
        const int first = layer.window > 0 ? std::max(0, p - layer.window + 1) : 0;
        std::vector<double> scores;
        double best = layer.sink_logits.empty() ? -1e300 : double(layer.sink_logits[size_t(h)]);
        for (int t = first; t <= p; ++t) {
          double dot = 0;
          for (int c = 0; c < dk; ++c) dot += double(query[c]) * double(k[key_at(t, h / group) + size_t(c)]);
          dot *= double(layer.scale);
          if (layer.softcap > 0) dot = double(layer.softcap) * std::tanh(dot / double(layer.softcap));
          scores.push_back(dot);
          best = std::max(best, dot);
        }
        double total = layer.sink_logits.empty() ? 0.0 : std::exp(double(layer.sink_logits[size_t(h)]) - best);
        std::vector<double> sum(size_t(dv), 0.0);
        for (int t = first; t <= p; ++t) {
          const double weight = std::exp(scores[size_t(t - first)] - best);
          total += weight;
          for (int c = 0; c < dv; ++c) sum[size_t(c)] += weight * double(v[value_at(t, h / group) + size_t(c)]);
        }
        for (int c = 0; c < dv; ++c)
          out[(size_t(p) * size_t(layer.heads) + size_t(h)) * size_t(dv) + size_t(c)] = float(sum[size_t(c)] / total);
      }
    return out;
  }
  size_t key_at(int t, int head) const {
    return (size_t(t) * size_t(layer.kv_heads) + size_t(head)) * size_t(layer.key_dim);
  }
  size_t value_at(int t, int head) const {
    return (size_t(t) * size_t(layer.kv_heads) + size_t(head)) * size_t(layer.value_dim);
  }
};

inline LayerGeometry small_layer(int heads, int kv_heads, int dim) {
  LayerGeometry layer;
  layer.heads = heads;
  layer.kv_heads = kv_heads;
  layer.key_dim = layer.value_dim = dim;
  layer.scale = 1.0f / std::sqrt(float(dim));
  return layer;
}

inline Cache one_layer_cache(const LayerGeometry& layer, const std::string& kv, int sink, int recent) {
  CacheOptions options;
  parse_kv(kv, options);
  options.sink = sink;
  options.recent = recent;
  return Cache(Geometry{{layer}}, options);
}

// Root of the mean squared difference over the root of the mean square of `expected`.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, energy = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (double(got[i]) - double(expected[i])) * (double(got[i]) - double(expected[i]));
    energy += double(expected[i]) * double(expected[i]);
  }
  return std::sqrt(error / energy);
}

// Every byte of the packed pages of a one-layer sequence.
inline std::vector<std::byte> page_bytes(Cache& cache, SequenceId sequence) {
  std::vector<std::byte> bytes;
  const LayerState& state = cache.impl().sequence(sequence).layers[0];
  for (const auto& pages : state.pages)
    for (const PageRef& page : pages)
      bytes.insert(bytes.end(), page.bytes(), page.bytes() + cache.impl().codecs[0].page_bytes());
  return bytes;
}

// The instruction sets to test: all that this machine has, or the one that KVASIR_SIMD names.
inline std::vector<AttentionOptions> all_levels(int threads = 2) {
  std::vector<AttentionOptions> levels;
  if (std::getenv("KVASIR_SIMD")) return {AttentionOptions::from_environment(threads)};
  for (const SimdLevel level : kSimdLevels) {
    AttentionOptions options;
    options.threads = threads;
    options.simd = level;
    if (simd_available(level)) levels.push_back(options);
  }
  return levels;
}

}  // namespace kvasir
