// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How kernels walk through a page, its segments and their cells, whatever the instruction set. For files of one
// instruction set only: everything here is internal to the file that includes it (page_view.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/kernels.h"
#include "attention/page_view.h"
#include "attention/row_groups.h"

namespace kvasir {
namespace {

constexpr int kQuad = 4;  // bytes of a 32-bit lane: 4 channels of a token or 4 tokens of a channel

// each(Constant<0>{}), ... of the vectors of a cell.
template <class Each>
inline void each_vector(const Each& each) {
  each(Constant<0>{});
  each(Constant<1>{});
  each(Constant<2>{});
  each(Constant<3>{});
  each(Constant<4>{});
  each(Constant<5>{});
  each(Constant<6>{});
  each(Constant<7>{});
}

// Cells of consecutive blocks: those of one follow one another, those of the next lie `stride` bytes on.
struct Cells {
  const uint8_t* first;
  ptrdiff_t stride;
};

inline Cells packed_cells(const SegmentView& segment, int block) {
  const ptrdiff_t stride = ptrdiff_t(segment.count / kCellChannels) * kVectorCodes * segment.bits;
  return {reinterpret_cast<const uint8_t*>(segment.codes) + block * stride, stride};
}

// Calls visit(source, cells) with what reads `blocks` blocks from `block` on: Codes<bits, is there a table> for the
// widths that are read straight from the page, Bytes for levels that need no unpacking or are unpacked into `levels`
// first.
template <template <int, bool> class Codes, class Bytes, class Visit>
inline void read_blocks(const SegmentView& segment, int block, int blocks, uint8_t* levels, Visit visit) {
  const Cells cells = packed_cells(segment, block);
  const auto visit_codes = [&](auto bits) {
    constexpr int kBits = decltype(bits)::value;
    if (segment.level) return visit(Codes<kBits, true>(segment.level), cells);
    visit(Codes<kBits, false>(nullptr), cells);
  };
  if (!segment.trellis && segment.bits == 2) return visit_codes(Constant<2>{});
  if (!segment.trellis && segment.bits == 3) return visit_codes(Constant<3>{});
  if (!segment.trellis && segment.bits == 4) return visit_codes(Constant<4>{});
  if (segment.bits == 8 && !segment.level) return visit(Bytes{}, cells);
  const ptrdiff_t block_levels = cells.stride / segment.bits * 8;
  for (int b = 0; b < blocks; ++b) Bytes::unpack(segment, block + b, levels + b * block_levels);
  visit(Bytes{}, Cells{levels, block_levels});
}

// Calls unpack(Constant<bits>, first cell, cells) for the cells of a block of codes of 1 to 6 or 8 bits.
template <class Unpack>
inline void unpack_block(const SegmentView& segment, int block, Unpack unpack) {
  const uint8_t* packed = packed_cells(segment, block).first;
  const int cells = segment.count / kCellChannels;
  switch (segment.bits) {
    case 1: return unpack(Constant<1>{}, packed, cells);
    case 2: return unpack(Constant<2>{}, packed, cells);
    case 3: return unpack(Constant<3>{}, packed, cells);
    case 4: return unpack(Constant<4>{}, packed, cells);
    case 5: return unpack(Constant<5>{}, packed, cells);
    case 6: return unpack(Constant<6>{}, packed, cells);
    default: return unpack(Constant<8>{}, packed, cells);
  }
}

// Kernels::prepare_query. prepare(segment, x, to) turns one row into the integers at `to`, of which there is room for
// as many 16-bit ones as the segment has channels.
template <class Prepare>
inline void prepare_segments(const SideLayout& layout, const float* q, int rows, KernelScratch& scratch,
                             Prepare prepare) {
  const PageView page = view_page(layout);
  for (int s = 0; s < page.segments; ++s) {
    const SegmentView segment = view_segment(layout, s);
    if (segment.bits == 16) continue;
    for (int r = 0; r < rows; ++r)
      scratch.terms[s * kMaxRows + r] =
          prepare(segment, q + r * page.dim + segment.first, scratch.query + rows * segment.first + r * segment.count);
  }
}

// Kernels::score_page. dot(x, halves, n) is a row's product with the mean; raw(...) adds a segment of halves, as
// add_score_halves does; packed(segment, dim, q, rows, query, terms, scores, levels) one of codes.
template <class Dot, class Raw, class Packed>
inline void score_segments(const SideLayout& layout, const std::byte* page, const float* q, int rows, float* scores,
                           KernelScratch& scratch, Dot dot, Raw raw, Packed packed) {
  const PageView view = view_page(layout, page);
  for (int r = 0; r < rows; ++r) {
    const float base = view.mean ? dot(q + r * view.dim, view.mean, view.mean_dim) : 0.0f;
    for (int t = 0; t < kPageTokens; ++t) scores[r * kPageTokens + t] = base;
  }
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      raw(segment.half, segment.raw, segment.count, kPageTokens, segment.count, q + segment.first, view.dim, rows,
          scores);
    } else {
      packed(segment, view.dim, q, rows, scratch.query + rows * segment.first, scratch.terms + s * kMaxRows, scores,
             scratch.levels);
    }
  }
}

// A packed segment's scores block by block. Channel scales belong to the query, which fold(segment, block, q, scores,
// query) then makes anew for each; score(segment, block, query, terms, rows, scores, levels) adds the block's.
template <class Fold, class Score>
inline void score_blocks(const SegmentView& segment, int dim, const float* q, int rows, int16_t* query, RowTerms* terms,
                         float* scores, uint8_t* levels, Fold fold, Score score) {
  const bool by_channel = segment.channel_scales[0] != nullptr;
  for (int block = 0; block < kBlocksPerPage; ++block) {
    for (int r = 0; by_channel && r < rows; ++r)
      terms[r] = fold(segment, block, q + r * dim + segment.first, scores + r * kPageTokens, query + r * segment.count);
    score(segment, block, query, terms, rows, scores, levels);
  }
}

// Kernels::gather_page. add_mean(view, weights, out) adds a row's weights times the mean; raw(...) a segment of halves,
// as add_gather_halves does; packed(segment, dim, weights, rows, out, scratch) one of codes.
template <class AddMean, class Raw, class Packed>
inline void gather_segments(const SideLayout& layout, const std::byte* page, const float* weights, int rows, float* out,
                            KernelScratch& scratch, AddMean add_mean, Raw raw, Packed packed) {
  const PageView view = view_page(layout, page);
  for (int r = 0; view.mean && r < rows; ++r) add_mean(view, weights + r * kPageTokens, out + r * view.dim);
  for (int s = 0; s < view.segments; ++s) {
    const SegmentView segment = view_segment(layout, page, s, scratch.scales);
    if (segment.raw) {
      raw(segment.half, segment.raw, segment.count, kPageTokens, segment.count, weights, rows, out + segment.first,
          view.dim);
    } else {
      packed(segment, view.dim, weights, rows, out, scratch);
    }
  }
}

}  // namespace
}  // namespace kvasir
