// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/filled_cache.h"

#include <algorithm>
#include <cmath>

#include "attention/append.h"
#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr int kChunkTokens = 1024;  // bounds the rows that a long append holds side by side

HeadsView view(const std::vector<float>& values, int64_t heads, int64_t dim, int64_t first_token) {
  return {values.data() + first_token * heads * dim, heads * dim, dim};
}

}  // namespace

LayerInput gaussian_input(const LayerGeometry& layer, int64_t tokens, uint64_t seed) {
  LayerInput input{layer, tokens, {}, {}, {}};
  SplitMix random(seed);
  const auto fill = [&](std::vector<float>& values, int64_t count) {
    values.resize(size_t(count));
    std::ranges::generate(values, [&] { return float(random.normal()); });
  };
  fill(input.k, tokens * layer.kv_heads * layer.key_dim);
  fill(input.v, tokens * layer.kv_heads * layer.value_dim);
  fill(input.q, int64_t(layer.heads) * layer.key_dim);
  return input;
}

std::vector<double> exact_attention(const LayerInput& input) {
  const LayerGeometry& layer = input.layer;
  std::vector<double> out(size_t(layer.heads) * size_t(layer.value_dim), 0.0),
      weights(static_cast<size_t>(input.tokens));
  for (int head = 0; head < layer.heads; ++head) {
    const int kv_head = head / layer.group();
    const float* q = input.q.data() + int64_t(head) * layer.key_dim;
    double most = -INFINITY, sum = 0.0;
    for (int64_t t = 0; t < input.tokens; ++t) {
      const float* k = input.k.data() + (t * layer.kv_heads + kv_head) * layer.key_dim;
      double score = 0.0;
      for (int c = 0; c < layer.key_dim; ++c) score += double(q[c]) * double(k[c]);
      weights[size_t(t)] = layer.scale * score;
      most = std::max(most, weights[size_t(t)]);
    }
    double* o = out.data() + int64_t(head) * layer.value_dim;
    for (int64_t t = 0; t < input.tokens; ++t) {
      const float* v = input.v.data() + (t * layer.kv_heads + kv_head) * layer.value_dim;
      const double weight = std::exp(weights[size_t(t)] - most);
      sum += weight;
      for (int c = 0; c < layer.value_dim; ++c) o[c] += weight * double(v[c]);
    }
    for (int c = 0; c < layer.value_dim; ++c) o[c] /= sum;
  }
  return out;
}

FilledCache::FilledCache(const LayerInput& input, const CacheOptions& options, int copies)
    : input_(input), cache_(Geometry{{input.layer}}, options) {
  const LayerGeometry& layer = input.layer;
  const int64_t tokens = input.tokens - 1;
  for (int i = 0; i < copies; ++i) {
    const SequenceId sequence = cache_.create();
    for (int64_t first = 0; first < tokens; first += kChunkTokens) {
      const HeadsView k = view(input.k, layer.kv_heads, layer.key_dim, first);
      const HeadsView v = view(input.v, layer.kv_heads, layer.value_dim, first);
      // attend() would spend minutes on queries that nobody asks for.
      SpanAppend append(cache_.impl(), 0, {sequence, 0, int(std::min<int64_t>(kChunkTokens, tokens - first))});
      for (int head = 0; head < layer.kv_heads; ++head) {
        append.gather(head, k, v);
        for (int page = 0; page < append.new_pages(); ++page) append.pack(head, page);
        append.settle(head, k, v);
      }
      append.commit();
    }
    sequences_.push_back(sequence);
  }
}

void FilledCache::attend_last(SequenceId sequence, std::span<float> out, const AttentionOptions& options) {
  const LayerGeometry& layer = input_.layer;
  const SequenceSpan span{sequence, 0, 1};
  attend(cache_, 0, view(input_.q, layer.heads, layer.key_dim, 0),
         view(input_.k, layer.kv_heads, layer.key_dim, input_.tokens - 1),
         view(input_.v, layer.kv_heads, layer.value_dim, input_.tokens - 1), {&span, 1}, out.data(), options);
}

void FilledCache::step(int copy, std::span<float> out, const AttentionOptions& options) {
  attend_last(sequences_[size_t(copy)], out, options);
}

void FilledCache::undo(int copy) {
  if (cache_.truncate(sequences_[size_t(copy)], input_.tokens - 1) != input_.tokens - 1)
    throw Error(ErrorCode::internal, "a decode step over the bench's cache can't be undone");
}

std::vector<float> FilledCache::reference(int copy, const AttentionOptions& options) {
  AttentionOptions doubles = options;
  doubles.reference = true;
  const SequenceId twin = cache_.fork(sequences_[size_t(copy)]);
  std::vector<float> out(size_t(input_.layer.heads) * size_t(input_.layer.value_dim));
  attend_last(twin, out, doubles);
  cache_.remove(twin);
  return out;
}

}  // namespace kvasir::cli
