// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The plain twin of every kernel: what the others are tested against, and what runs where no instruction set is known.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/kernels.h"
#include "attention/page_view.h"
#include "codec/trellis_segment.h"

namespace kvasir {

namespace {

float half_or(const uint16_t* halves, int i, float otherwise) {
  return halves ? f16_to_float(halves[i]) : otherwise;
}

// Calls visit(token, channel, value) for every value of one cell (32 tokens x 8 channels) of a packed segment.
template <class Visit>
void visit_cell(Side side, const SegmentView& segment, int block, int cell, Visit& visit) {
  uint8_t codes[kVectorCodes * kCellVectors];
  const int cells = segment.count / kCellChannels, index = block * cells + cell;
  if (segment.trellis) {
    unpack_trellis_cell(*segment.trellis, segment.codes, kBlocksPerPage * cells, index, codes);
  } else {
    unpack_cell(segment.bits, segment.codes + size_t(index) * size_t(kVectorCodes) * size_t(segment.bits), codes);
  }
  for (int t = 0; t < kBlockTokens; ++t) {
    const int token = block * kBlockTokens + t;
    for (int c = 0; c < kCellChannels; ++c) {
      const CodePlace place = code_place(side, t, c);
      const int code = codes[place.vector * kVectorCodes + place.byte];
      const int level = segment.level ? segment.level[code] : code;
      const int channel = cell * kCellChannels + c;
      const float scale =
          half_or(segment.token_scales, token, 1.0f) * half_or(segment.channel_scales[block], channel, 1.0f);
      const float zero =
          half_or(segment.token_zeros, token, 0.0f) + half_or(segment.channel_zeros[block], channel, 0.0f);
      const float value = float(level - segment.offset) * segment.step * scale + zero;
      visit(token, segment.first + channel, value + half_or(segment.mean, channel, 0.0f));
    }
  }
}

// The same for a whole page.
template <class Visit>
void visit_page(const SideLayout& layout, const std::byte* page, Visit visit) {
  const PageView view = view_page(layout, page);
  uint16_t scales[kPageTokens];
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scales);
    if (segment.raw) {
      for (int t = 0; t < kPageTokens; ++t) {
        for (int c = 0; c < segment.count; ++c) {
          const float value = half_to_float(segment.half, segment.raw[t * segment.count + c]);
          visit(t, segment.first + c, value + half_or(segment.mean, c, 0.0f));
        }
      }
      continue;
    }
    for (int block = 0; block < kBlocksPerPage; ++block) {
      for (int cell = 0; cell < segment.count / kCellChannels; ++cell) {
        visit_cell(view.side, segment, block, cell, visit);
      }
    }
  }
}

void prepare_query(const SideLayout&, const float*, int, KernelScratch&) {}

void score_page(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                KernelScratch&) {
  const int dim = layout.mapped_dim();
  std::fill_n(scores, rows * kPageTokens, 0.0f);
  visit_page(layout, page, [&](int token, int channel, float value) {
    for (int r = 0; r < rows; ++r) scores[r * kPageTokens + token] += q[r * dim + channel] * value;
  });
}

void gather_page(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                 KernelScratch&) {
  const int dim = layout.mapped_dim();
  visit_page(layout, page, [&](int token, int channel, float value) {
    for (int r = 0; r < rows; ++r) out[r * dim + channel] += weights[r * kPageTokens + token] * value;
  });
}

void score_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, const float* q, int rows, float* scores) {
  for (int r = 0; r < rows; ++r) {
    for (int t = 0; t < tokens; ++t) {
      float sum = 0.0f;
      for (int c = 0; c < dim; ++c) sum += q[r * dim + c] * half_to_float(kind, k[t * dim + c]);
      scores[r * kPageTokens + t] = sum;
    }
  }
}

void gather_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, const float* weights, int rows, float* out) {
  for (int r = 0; r < rows; ++r) {
    for (int t = 0; t < tokens; ++t) {
      const float weight = weights[r * kPageTokens + t];
      for (int c = 0; c < dim; ++c) out[r * dim + c] += weight * half_to_float(kind, v[t * dim + c]);
    }
  }
}

float softmax_step(float* scores, int tokens, float* max, float* sum) {
  float new_max = *max;
  for (int t = 0; t < tokens; ++t) new_max = std::max(new_max, scores[t]);
  if (new_max == -std::numeric_limits<float>::infinity()) {
    std::fill_n(scores, tokens, 0.0f);
    return 1.0f;
  }
  const float factor = std::exp(*max - new_max);
  float added = 0.0f;
  for (int t = 0; t < tokens; ++t) {
    scores[t] = std::exp(scores[t] - new_max);
    added += scores[t];
  }
  *sum = *sum * factor + added;
  *max = new_max;
  return factor;
}

void key_tile(const SideLayout& layout, const std::byte* page, float* kt, KernelScratch&) {
  visit_page(layout, page, [&](int token, int channel, float value) { kt[channel * kPageTokens + token] = value; });
}

void key_tile_halves(HalfKind kind, const uint16_t* k, int tokens, int dim, float* kt) {
  std::fill_n(kt, dim * kPageTokens, 0.0f);
  for (int t = 0; t < tokens; ++t) {
    for (int c = 0; c < dim; ++c) kt[c * kPageTokens + t] = half_to_float(kind, k[t * dim + c]);
  }
}

void value_tile(const SideLayout& layout, const std::byte* page, float* v, KernelScratch&) {
  const int dim = layout.mapped_dim();
  visit_page(layout, page, [&](int token, int channel, float value) { v[token * dim + channel] = value; });
}

void value_tile_halves(HalfKind kind, const uint16_t* v, int tokens, int dim, float* out) {
  for (int i = 0; i < tokens * dim; ++i) out[i] = half_to_float(kind, v[i]);
}

void tile_scores(const float* q, int rows, int dim, const float* kt, float* scores) {
  for (int r = 0; r < rows; ++r) {
    float* row = scores + size_t(r) * kPageTokens;
    std::fill_n(row, kPageTokens, 0.0f);
    for (int c = 0; c < dim; ++c) {
      const float x = q[size_t(r) * size_t(dim) + size_t(c)];
      for (int t = 0; t < kPageTokens; ++t) row[t] += x * kt[c * kPageTokens + t];
    }
  }
}

void tile_gather(const float* weights, int rows, int tokens, const float* v, int dim, float* out) {
  for (int r = 0; r < rows; ++r) {
    float* row = out + size_t(r) * size_t(dim);
    for (int t = 0; t < tokens; ++t) {
      const float weight = weights[size_t(r) * kPageTokens + size_t(t)];
      for (int c = 0; c < dim; ++c) row[c] += weight * v[t * dim + c];
    }
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels kernels = {SimdLevel::scalar, prepare_query, score_page, gather_page,     score_halves,
                                  gather_halves,     softmax_step,  key_tile,   key_tile_halves, value_tile,
                                  value_tile_halves, tile_scores,   tile_gather};
  return kernels;
}

}  // namespace kvasir
