// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/head_view.h"
#include "codec/page_codec.h"

namespace kvasir {
namespace {

// The visible past of a head, decoded: rows of double.
struct DenseHead {
  std::vector<float> k, v;  // [tokens, dim]
  std::vector<int64_t> positions;

  void add_halves(const HeadView& view, const uint16_t* keys, const uint16_t* values, int64_t first, int64_t tokens) {
    const int dk = view.layer->key_dim, dv = view.layer->value_dim;
    for (int64_t t = 0; t < tokens; ++t) {
      positions.push_back(first + t);
      for (int c = 0; c < dk; ++c) k.push_back(half_to_float(view.codecs->key_window(), keys[t * dk + c]));
      for (int c = 0; c < dv; ++c) v.push_back(half_to_float(view.codecs->value_window(), values[t * dv + c]));
    }
  }
  void add_page(const HeadView& view, int page) {
    const bool kept = page < view.kept_pages();
    const size_t tokens = size_t(kept ? view.kept->tokens_of(page) : kPageTokens), before = positions.size();
    const SideLayout &key = view.codecs->key, &value = view.codecs->value;
    k.resize(k.size() + size_t(kPageTokens * key.dim()));
    v.resize(v.size() + size_t(kPageTokens * value.dim()));
    decode_page(key, view.head, view.page(page), k.data() + k.size() - size_t(kPageTokens * key.dim()));
    const RowPositions rows = view.positions_of(page);
    if (key.turning) key.turning->restore(view.head, rows, k.data() + k.size() - size_t(kPageTokens * key.dim()));
    decode_page(value, view.head, view.page(page) + key.bytes, v.data() + v.size() - size_t(kPageTokens * value.dim()));
    k.resize((before + tokens) * size_t(key.dim()));
    v.resize((before + tokens) * size_t(value.dim()));
    for (size_t t = 0; t < tokens; ++t) positions.push_back(rows.at(int(t)));
  }
};

void attend_row(const HeadView& view, const DenseHead& past, const float* q, int64_t position, int head, float* out) {
  const LayerGeometry& layer = *view.layer;
  const int dk = layer.key_dim, dv = layer.value_dim;
  const int64_t oldest = first_visible(layer, position);
  const double hidden = -std::numeric_limits<double>::infinity();
  std::vector<double> scores(past.positions.size(), hidden);
  double best = layer.sink_logits.empty() ? hidden : double(layer.sink_logits[size_t(head)]);
  for (size_t t = 0; t < scores.size(); ++t) {
    if (past.positions[t] > position || past.positions[t] < oldest) continue;
    double dot = 0;
    for (int c = 0; c < dk; ++c) dot += double(q[c]) * double(past.k[t * size_t(dk) + size_t(c)]);
    dot *= double(layer.scale);
    if (layer.softcap > 0) dot = double(layer.softcap) * std::tanh(dot / double(layer.softcap));
    scores[t] = dot;
    best = std::max(best, dot);
  }
  std::vector<double> sum(size_t(dv), 0.0);
  double total = layer.sink_logits.empty() ? 0.0 : std::exp(double(layer.sink_logits[size_t(head)]) - best);
  for (size_t t = 0; t < scores.size(); ++t) {
    const double weight = std::exp(scores[t] - best);
    if (weight == 0) continue;
    total += weight;
    for (int c = 0; c < dv; ++c) sum[size_t(c)] += weight * double(past.v[t * size_t(dv) + size_t(c)]);
  }
  for (int c = 0; c < dv; ++c) out[c] = float(sum[size_t(c)] / total);
}

}  // namespace

void attend_reference(const HeadView& view, const QueryBlock& block) {
  DenseHead past;
  past.add_halves(view, view.sink_k, view.sink_v, 0, view.sink_tokens);
  for (int page = 0; page < view.all_pages(); ++page) past.add_page(view, page);
  past.add_halves(view, view.recent_k, view.recent_v, view.recent_start, view.recent_end - view.recent_start);
  const int group = view.layer->group();
  for (int r = 0; r < block.tokens * group; ++r)
    attend_row(view, past, block.row(r, group), block.position + r / group, view.head * group + r % group,
               block.out_row(r, group, view.layer->value_dim));
}

}  // namespace kvasir
