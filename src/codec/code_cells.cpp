// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/code_cells.h"

namespace kvasir {

void pack_columns(Side side, const SegmentLayout& segment, const uint8_t* codes, std::byte* page) {
  uint8_t cell[kCellCodes];
  for (int block = 0; block < kBlocksPerPage; ++block)
    for (int i = 0; i < segment.cells(); ++i) {
      to_cell(side, codes + i * kCellChannels * kPageTokens + block * kBlockTokens, cell);
      pack_cell(segment.bits, cell, page + segment.cell(block, i));
    }
}

}  // namespace kvasir
