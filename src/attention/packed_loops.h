// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How kernels walk through the cells of a packed segment, whatever the instruction set. For *-avx2.cpp and *-avx512.cpp
// files only: everything here is internal to the file that includes it (page_view.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/page_view.h"

namespace kvasir {
namespace {

constexpr int kQuad = 4;      // bytes of a 32-bit lane: 4 channels of a token or 4 tokens of a channel
constexpr int kMostRows = 8;  // that share one reading of the levels: as many sums as leave registers for the rest

template <int N>
struct Constant {
  static constexpr int value = N;
};

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

// Calls visit(Constant<R>, first row) until all rows had their turn.
template <class Visit>
inline void in_row_groups(int rows, Visit visit) {
  int r = 0;
  for (; rows - r >= kMostRows; r += kMostRows) visit(Constant<kMostRows>{}, r);
  if (rows - r >= 4) {
    visit(Constant<4>{}, r);
    r += 4;
  }
  if (rows - r == 3) return visit(Constant<3>{}, r);
  if (rows - r == 2) return visit(Constant<2>{}, r);
  if (rows - r == 1) return visit(Constant<1>{}, r);
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

}  // namespace
}  // namespace kvasir
