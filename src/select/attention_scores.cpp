// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/attention_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/head_view.h"
#include "attention/kernels.h"
#include "base/parallel.h"

namespace kvasir {
namespace {

constexpr size_t kTile = kPageTokens;
constexpr size_t kRows = 64;  // rows at a time: their scores of all tokens are held at once
constexpr float kHidden = -std::numeric_limits<float>::infinity();

}  // namespace

AttentionScores::AttentionScores(const LayerGeometry& layer, std::vector<int32_t> positions,
                                 std::span<const float> keys, ScoreReduction reduction)
    : layer_(layer), reduction_(reduction), positions_(std::move(positions)) {
  const size_t dim = size_t(layer.key_dim), count = positions_.size();
  tiles_.assign((count + kTile - 1) / kTile * kTile * dim, 0.0f);
  for (size_t i = 0; i < count; ++i)
    for (size_t c = 0; c < dim; ++c) tiles_[(i / kTile * dim + c) * kTile + i % kTile] = keys[i * dim + c];
  if (reduction == ScoreReduction::most)
    most_log_.assign(count, kHidden);
  else
    sum_.assign(count, 0.0);
}

void AttentionScores::add(const HeadsView& q, int head, int tokens, int64_t first, const AttentionOptions& options) {
  const int group = layer_.group();
  const size_t dim = size_t(layer_.key_dim), rows = size_t(tokens) * size_t(group);
  std::vector<std::vector<float>> reduced((rows + kRows - 1) / kRows);
  parallel_for(int(reduced.size()), options.threads, [&](int block, int) {
    Rows part;
    for (size_t row = size_t(block) * kRows; row < std::min(rows, size_t(block + 1) * kRows); ++row) {
      const int t = int(row) / group, g = int(row) % group;
      const float* from = q.data + t * q.token_stride + (head * group + g) * q.head_stride;
      for (size_t c = 0; c < dim; ++c) part.q.push_back(from[c] * layer_.scale);
      part.positions.push_back(first + t);
    }
    reduced[size_t(block)] = reduce(part, options.simd);
  });
  for (const std::vector<float>& part : reduced)
    for (size_t i = 0; i < positions_.size(); ++i) {
      if (reduction_ == ScoreReduction::most)
        most_log_[i] = std::max(most_log_[i], part[i]);
      else
        sum_[i] += double(part[i]);
    }
  rows_ += int64_t(rows);
}

std::vector<float> AttentionScores::reduce(const Rows& rows, SimdLevel simd) const {
  const Kernels& kernels = kernels_for(simd);
  const bool most = reduction_ == ScoreReduction::most;
  const size_t dim = size_t(layer_.key_dim), count = positions_.size(), row_count = rows.positions.size();
  const size_t tiles = (count + kTile - 1) / kTile;
  std::vector<float> reduced(count, most ? kHidden : 0.0f);
  std::vector<float> scores(tiles * row_count * kTile);  // [tiles][rows][64]
  for (size_t tile = 0; tile < tiles; ++tile)
    kernels.tile_scores(rows.q.data(), int(row_count), layer_.key_dim, &tiles_[tile * dim * kTile],
                        &scores[tile * row_count * kTile]);
  for (size_t r = 0; r < row_count; ++r) {
    const auto before = [&](int64_t position) {
      return size_t(std::lower_bound(positions_.begin(), positions_.end(), position) - positions_.begin());
    };
    const size_t begin = before(first_visible(layer_, rows.positions[r])), end = before(rows.positions[r] + 1);
    const auto score = [&](size_t i) -> float& { return scores[(i / kTile * row_count + r) * kTile + i % kTile]; };
    if (layer_.softcap > 0)
      for (size_t i = begin; i < end; ++i) score(i) = layer_.softcap * std::tanh(score(i) / layer_.softcap);
    float best = kHidden;
    for (size_t i = begin; i < end; ++i) best = std::max(best, score(i));
    if (!(best > kHidden)) continue;  // sees nothing, or isn't a number
    double total = 0;
    for (size_t i = begin; i < end; ++i) total += double(std::exp(score(i) - best));
    const float log_total = best + float(std::log(total));
    for (size_t i = begin; i < end; ++i) {
      const float share = score(i) - log_total;  // its log
      reduced[i] = most ? std::max(reduced[i], share) : reduced[i] + std::exp(share);
    }
  }
  return reduced;
}

std::vector<float> AttentionScores::scores() const {
  std::vector<float> result(positions_.size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = reduction_ == ScoreReduction::most ? std::exp(most_log_[i])
                : rows_ > 0                        ? float(sum_[i] / double(rows_))
                                                   : 0.0f;
  return result;
}

}  // namespace kvasir
