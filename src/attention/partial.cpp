// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "attention/partial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

namespace kvasir {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
// Up to here each page is read in the integer domain; above, turning it into a float tile pays off.
constexpr int kFewRows = 48;

// Per thread, so that attention doesn't allocate from step to step.
struct Workspace {
  KernelScratch kernel;
  std::vector<float> scores, tile, turning_terms, turning_scores;
};

Workspace& workspace(int rows, const LayerCodecs& codecs) {
  static thread_local Workspace space;
  space.scores.resize(size_t(rows) * kPageTokens);
  if (codecs.key.turning) {
    space.turning_terms.resize(size_t(rows) * size_t(codecs.key.turning->terms()));
    space.turning_scores.resize(size_t(rows) * TurningMean::kBlocks);
  }
  // Pages in the mapped basis, windows in the model's own.
  space.tile.resize(size_t(kPageTokens) * size_t(std::max({codecs.key.mapped_dim(), codecs.value.mapped_dim(),
                                                           codecs.key.dim(), codecs.value.dim()})));
  return space;
}

// A page, or up to 64 tokens of a window.
struct Piece {
  int page = -1;  // -1: of a window
  int tokens = kPageTokens;
  int64_t first = 0;  // position; kept pages have one for each token
  const std::byte *k = nullptr, *v = nullptr;
  size_t k_bytes = 0, v_bytes = 0;
};

// Asks for half of what a later piece reads on one side, into the second level: first-level requests are few and make
// others wait. Pieces lie all over memory, so the processor's own prefetching starts anew in each; and by halves, since
// requests beyond what the memory takes at once stop everything else.
void fetch_half(const std::byte* side, size_t bytes, int half) {
  constexpr size_t kLine = 64;
  const size_t middle = bytes / 2 / kLine * kLine;
  const size_t begin = half == 0 ? 0 : middle, end = half == 0 ? middle : bytes;
  for (size_t i = begin; i < end; i += kLine) __builtin_prefetch(side + i, 0, 2);
}

// What of a slice any query of the block sees, in order.
void list_pieces(const HeadView& view, const QueryBlock& block, const Slice& slice, std::vector<Piece>& pieces) {
  const LayerGeometry& layer = *view.layer;
  const int64_t oldest = first_visible(layer, block.position), newest = block.position + block.tokens - 1;
  const auto hidden = [&](int64_t first, int tokens) { return first > newest || first + tokens <= oldest; };
  // A few tokens in 16 bits are as many bytes as a packed page.
  const int64_t step = block.tokens == 1 ? kPageTokens / 4 : kPageTokens;
  const auto add_window = [&](const uint16_t* k, const uint16_t* v, int64_t first, int64_t count) {
    const size_t k_row = size_t(layer.key_dim) * sizeof *k, v_row = size_t(layer.value_dim) * sizeof *v;
    for (int64_t done = 0; done < count; done += step) {
      const int tokens = int(std::min<int64_t>(step, count - done));
      if (hidden(first + done, tokens)) continue;
      pieces.push_back({-1, tokens, first + done, reinterpret_cast<const std::byte*>(k) + size_t(done) * k_row,
                        reinterpret_cast<const std::byte*>(v) + size_t(done) * v_row, size_t(tokens) * k_row,
                        size_t(tokens) * v_row});
    }
  };
  pieces.clear();
  if (slice.sink) add_window(view.sink_k, view.sink_v, 0, view.sink_tokens);
  for (int page = slice.first_page; page < slice.last_page; ++page) {
    const bool kept = page < view.kept_pages();
    const int64_t first = kept ? 0 : view.pages_start + int64_t(page - view.kept_pages()) * kPageTokens;
    // Kept tokens lie before every query that reads them, so only a sliding window hides any.
    if (kept ? view.kept->positions_of(page).back() < oldest : hidden(first, kPageTokens)) continue;
    const size_t k_bytes = view.codecs->key.bytes, v_bytes = view.codecs->value.bytes;
    const std::byte* k = view.page(page);
    pieces.push_back({page, kPageTokens, first, k, k + k_bytes, k_bytes, v_bytes});
  }
  if (slice.recent) add_window(view.recent_k, view.recent_v, view.recent_start, view.recent_end - view.recent_start);
}

// One pass over a slice.
class SlicePass {
 public:
  SlicePass(const Kernels& kernels, const HeadView& view, const QueryBlock& block, const QueryRows& queries,
            Partial& partial)
      : kernels_(kernels),
        view_(view),
        layer_(*view.layer),
        block_(block),
        queries_(queries),
        partial_(partial),
        group_(view.layer->group()),
        rows_(queries.count),
        few_(rows_ <= kFewRows),
        space_(workspace(rows_, *view.codecs)) {
    if (few_) kernels_.prepare_query(view.codecs->key, queries_.mapped.data(), rows_, space_.kernel);
  }

  // `next`: whose turn it is after this one, null for the last.
  void read(const Piece& piece, const Piece* next) {
    float* scores = space_.scores.data();
    if (next) fetch_half(next->k, next->k_bytes, 0);
    if (piece.page < 0)
      score_window(piece, scores);
    else
      score_page(piece, scores);
    if (next) fetch_half(next->k, next->k_bytes, 1);
    const bool kept = 0 <= piece.page && piece.page < view_.kept_pages();
    const bool counts = kept ? softmax_kept(piece.page) : softmax(piece.first, piece.tokens);
    if (next) fetch_half(next->v, next->v_bytes, 0);
    if (counts && piece.page < 0)
      gather_window(piece, scores);
    else if (counts)
      gather_page(piece, scores);
    if (next) fetch_half(next->v, next->v_bytes, 1);
  }

 private:
  void score_page(const Piece& piece, float* scores) {
    const SideLayout& layout = view_.codecs->key;
    if (few_) {
      kernels_.score_page(layout, piece.k, queries_.mapped.data(), rows_, scores, space_.kernel);
    } else {
      kernels_.key_tile(layout, piece.k, space_.tile.data(), space_.kernel);
      kernels_.tile_scores(queries_.mapped.data(), rows_, layout.mapped_dim(), space_.tile.data(), scores);
    }
    if (!queries_.means.empty()) add_mean_scores();
    if (layout.turning) add_turning_scores(*layout.turning, view_.positions_of(piece.page));
  }

  void gather_page(const Piece& piece, const float* weights) {
    const SideLayout& layout = view_.codecs->value;
    float* out = layout.codec.map == MapKind::identity ? partial_.raw.data() : partial_.mapped.data();
    if (few_) {
      kernels_.gather_page(layout, piece.v, weights, rows_, out, space_.kernel);
    } else {
      kernels_.value_tile(layout, piece.v, space_.tile.data(), space_.kernel);
      kernels_.tile_gather(weights, rows_, kPageTokens, space_.tile.data(), layout.mapped_dim(), out);
    }
  }

  void score_window(const Piece& piece, float* scores) {
    const HalfKind kind = view_.codecs->key_window();
    const auto* k = reinterpret_cast<const uint16_t*>(piece.k);
    if (few_) {
      kernels_.score_halves(kind, k, piece.tokens, layer_.key_dim, queries_.plain.data(), rows_, scores);
    } else {
      kernels_.key_tile_halves(kind, k, piece.tokens, layer_.key_dim, space_.tile.data());
      kernels_.tile_scores(queries_.plain.data(), rows_, layer_.key_dim, space_.tile.data(), scores);
    }
  }

  void gather_window(const Piece& piece, const float* weights) {
    const HalfKind kind = view_.codecs->value_window();
    const auto* v = reinterpret_cast<const uint16_t*>(piece.v);
    if (few_) {
      kernels_.gather_halves(kind, v, piece.tokens, layer_.value_dim, weights, rows_, partial_.raw.data());
    } else {
      kernels_.value_tile_halves(kind, v, piece.tokens, layer_.value_dim, space_.tile.data());
      kernels_.tile_gather(weights, rows_, piece.tokens, space_.tile.data(), layer_.value_dim, partial_.raw.data());
    }
  }

  // Packed keys are stored without the mean of their fitted map; windows are whole.
  void add_mean_scores() {
    for (int r = 0; r < rows_; ++r)
      for (int t = 0; t < kPageTokens; ++t)
        space_.scores[size_t(r) * kPageTokens + size_t(t)] += queries_.means[size_t(r)];
  }

  // The same of a mean that turns with the position: one number a row for the tokens of each block of positions.
  void add_turning_scores(const TurningMean& turning, const RowPositions& positions) {
    for (int first = 0; first < positions.count;) {
      const int64_t position = positions.at(first), block = TurningMean::block_of(position);
      int end = first + 1;
      while (end < positions.count && TurningMean::block_of(positions.at(end)) == block) ++end;
      if (TurningMean::stretch_of(position) != stretch_) score_stretch(turning, TurningMean::stretch_of(position));
      const size_t column = size_t(block % TurningMean::kBlocks);
      for (int r = 0; r < rows_; ++r) {
        const float score = space_.turning_scores[size_t(r) * TurningMean::kBlocks + column];
        float* scores = space_.scores.data() + r * kPageTokens;
        for (int t = first; t < end; ++t) scores[t] += score;
      }
      first = end;
    }
    const float* beyond = turning.beyond_block(view_.head);
    if (beyond && positions.at(0) == 0) add_first_scores(beyond);
  }

  void add_first_scores(const float* beyond) {
    const int dim = layer_.key_dim;
    for (int r = 0; r < rows_; ++r) {
      const float* q = queries_.plain.data() + size_t(r) * size_t(dim);
      space_.scores[size_t(r) * kPageTokens] += std::inner_product(q, q + dim, beyond, 0.0f);
    }
  }

  // All blocks of a stretch at once, as if their means were a page of keys.
  void score_stretch(const TurningMean& turning, int64_t stretch) {
    turning.to_terms(view_.head, stretch, queries_.plain.data(), rows_, space_.turning_terms.data());
    kernels_.tile_scores(space_.turning_terms.data(), rows_, turning.terms(), turning.block_turns(),
                         space_.turning_scores.data());
    stretch_ = stretch;
  }

  bool softmax_kept(int page) {
    const std::span<const int32_t> positions = view_.kept->positions_of(page);
    bool counts = false;
    for (int r = 0; r < rows_; ++r) {
      float* scores = space_.scores.data() + r * kPageTokens;
      cap(scores, int(positions.size()));
      const int64_t oldest = first_visible(layer_, block_.position + r / group_);
      const auto unseen = std::lower_bound(positions.begin(), positions.end(), oldest) - positions.begin();
      std::fill(scores, scores + unseen, kHidden);
      std::fill(scores + positions.size(), scores + kPageTokens, kHidden);
      counts |= exponentiate(scores, kPageTokens, r);
    }
    return counts;
  }

  // Masks, caps and exponentiates the scores of `tokens` tokens from `first` on, and rescales what was gathered. False
  // if no row's sum of weights changed by them: then a row loses at most 2^-24 of their largest value without them.
  bool softmax(int64_t first, int tokens) {
    bool counts = false;
    for (int r = 0; r < rows_; ++r) {
      float* scores = space_.scores.data() + r * kPageTokens;
      cap(scores, tokens);
      const int64_t position = block_.position + r / group_;
      const int64_t visible_end = std::clamp<int64_t>(position + 1 - first, 0, tokens);
      const int64_t visible_begin = std::clamp<int64_t>(first_visible(layer_, position) - first, 0, visible_end);
      for (int64_t t = 0; t < visible_begin; ++t) scores[t] = kHidden;
      for (int64_t t = visible_end; t < tokens; ++t) scores[t] = kHidden;
      counts |= exponentiate(scores, tokens, r);
    }
    return counts;
  }

  void cap(float* scores, int tokens) const {
    if (layer_.softcap > 0)
      for (int t = 0; t < tokens; ++t) scores[t] = layer_.softcap * std::tanh(scores[t] / layer_.softcap);
  }

  bool exponentiate(float* scores, int tokens, int row) {
    float& sum = partial_.sum[size_t(row)];
    const float before = sum;
    const float factor = kernels_.softmax_step(scores, tokens, &partial_.max[size_t(row)], &sum);
    if (factor == 1.0f) return !(sum == before);  // a sum that isn't a number counts
    scale_row(partial_.raw, row, factor);
    scale_row(partial_.mapped, row, factor);
    return true;
  }

  void scale_row(std::vector<float>& sums, int row, float factor) const {
    const size_t width = sums.size() / size_t(rows_);
    float* first = sums.data() + size_t(row) * width;
    for (size_t c = 0; c < width; ++c) first[c] *= factor;
  }

  const Kernels& kernels_;
  const HeadView& view_;
  const LayerGeometry& layer_;
  const QueryBlock& block_;
  const QueryRows& queries_;
  Partial& partial_;
  const int group_, rows_;
  const bool few_;
  int64_t stretch_ = -1;  // that turning_scores are of
  Workspace& space_;
};

}  // namespace

void Partial::reset(const QueryRows& queries, int value_dim, int mapped_dim) {
  rows = queries.count;
  max.assign(size_t(rows), kHidden);
  sum = queries.sums;
  raw.assign(size_t(rows) * size_t(value_dim), 0.0f);
  mapped.assign(size_t(rows) * size_t(mapped_dim), 0.0f);
}

void attend_slice(const Kernels& kernels, const HeadView& view, const QueryBlock& block, const QueryRows& queries,
                  const Slice& slice, Partial& partial) {
  partial.reset(queries, view.layer->value_dim, view.codecs->value.mapped_dim());
  static thread_local std::vector<Piece> pieces;
  list_pieces(view, block, slice, pieces);
  if (pieces.empty()) return;
  fetch_half(pieces[0].k, pieces[0].k_bytes, 0);
  SlicePass pass(kernels, view, block, queries, partial);
  for (size_t i = 0; i < pieces.size(); ++i) pass.read(pieces[i], i + 1 < pieces.size() ? &pieces[i + 1] : nullptr);
}

void finish(const Kernels& kernels, const HeadView& view, const QueryBlock& block, const Partial* parts, int count,
            int first_row, int last_row) {
  const LayerGeometry& layer = *view.layer;
  const size_t dim = size_t(layer.value_dim), width = size_t(view.codecs->value.mapped_dim());
  const auto rows = size_t(last_row - first_row);
  static thread_local std::vector<float> mapped, unmapped, totals;
  mapped.assign(rows * width, 0.0f);
  unmapped.resize(rows * dim);
  totals.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    const int r = first_row + int(i);
    const size_t row = size_t(r);
    const float learned =
        layer.sink_logits.empty() ? kHidden : layer.sink_logits[size_t(view.head * layer.group() + r % layer.group())];
    float best = learned;
    for (int part = 0; part < count; ++part) best = std::max(best, parts[part].max[row]);
    totals[i] = learned == kHidden ? 0.0f : std::exp(learned - best);
    float *out = block.out_row(r, layer.group(), layer.value_dim), *to = mapped.data() + i * width;
    std::fill(out, out + dim, 0.0f);
    for (int part = 0; part < count; ++part) {
      if (parts[part].max[row] == kHidden) continue;
      const float weight = std::exp(parts[part].max[row] - best);
      totals[i] += weight * parts[part].sum[row];
      for (size_t c = 0; c < dim; ++c) out[c] += weight * parts[part].raw[row * dim + c];
      for (size_t c = 0; c < width; ++c) to[c] += weight * parts[part].mapped[row * width + c];
    }
  }
  const bool is_mapped = view.codecs->value.codec.map != MapKind::identity;
  if (is_mapped) map_back(kernels, map_of(view, Side::value), mapped.data(), int(rows), unmapped.data());
  for (size_t i = 0; i < rows; ++i) {
    float* out = block.out_row(first_row + int(i), layer.group(), layer.value_dim);
    const float inverse = 1.0f / totals[i];
    for (size_t c = 0; c < dim; ++c) out[c] = (is_mapped ? out[c] + unmapped[i * dim + c] : out[c]) * inverse;
  }
}

}  // namespace kvasir
