// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A packed page with every pointer worked out, as plain data. Kernels read pages only through it: files compiled for
// a newer instruction set must not instantiate inline functions of shared headers, since the linker keeps one copy of
// each and could keep theirs for processors that lack the set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/page_layout.h"

namespace kvasir {

struct SegmentView {
  int first, count, bits;
  HalfKind half;
  const uint16_t* raw;     // [64 tokens][count] where bits == 16, else null
  const std::byte* codes;  // [2 blocks][count / 8 cells] of 32 * bits bytes each
  const uint8_t* level;    // [2^bits]; null where the level is the code itself, and with a trellis
  const TrellisCode* trellis;
  int offset;
  float step;
  const uint16_t* mean;  // f16 [count], null if the segment's channels have none
  // f16; null where the codec has none: then the scale is 1 and the zero point 0. 8-bit scales are widened.
  const uint16_t* token_scales;                    // [64]
  const uint16_t* token_zeros;                     // [64]
  const uint16_t* channel_scales[kBlocksPerPage];  // [count]
  const uint16_t* channel_zeros[kBlocksPerPage];   // [count]
};

// `widened` takes the token scales where a page holds them in 8 bits; the view points there.
SegmentView view_segment(const SideLayout& layout, const std::byte* page, int segment,
                         uint16_t (&widened)[kPageTokens]);
// The same without a page: bits, step and offset, for a query that all pages share.
SegmentView view_segment(const SideLayout& layout, int segment);

struct PageView {
  Side side;
  int dim, segments;     // channels after the map
  const uint16_t* mean;  // f16 [mean_dim], null unless the codec is centered
  int mean_dim;
};

PageView view_page(const SideLayout& layout, const std::byte* page);
PageView view_page(const SideLayout& layout);  // without a page: side, dim and segments

}  // namespace kvasir
