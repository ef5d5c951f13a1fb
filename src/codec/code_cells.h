// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From columns [channels][64 tokens], as the encoder has values and codes, to the order of cells (codec/page_layout.h)
// and back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/page_layout.h"

namespace kvasir {

// One cell: `columns` is at its first channel and token.
template <class T>
void to_cell(Side side, const T* columns, T* cell) {
  if (side == Side::key) {
    for (int c = 0; c < kCellChannels; c += 4, columns += 4 * kPageTokens, cell += 4 * kBlockTokens)
      for (int t = 0; t < kBlockTokens; ++t)
        for (int i = 0; i < 4; ++i) cell[t * 4 + i] = columns[i * kPageTokens + t];
  } else {
    for (int v = 0; v < kCellVectors; ++v)
      for (int c = 0; c < kCellChannels; ++c, cell += 4)
        for (int i = 0; i < 4; ++i) cell[i] = columns[c * kPageTokens + v * 4 + i];
  }
}

template <class T>
void from_cell(Side side, const T* cell, T* columns) {
  if (side == Side::key) {
    for (int c = 0; c < kCellChannels; c += 4, columns += 4 * kPageTokens, cell += 4 * kBlockTokens)
      for (int i = 0; i < 4; ++i)
        for (int t = 0; t < kBlockTokens; ++t) columns[i * kPageTokens + t] = cell[t * 4 + i];
  } else {
    for (int v = 0; v < kCellVectors; ++v)
      for (int c = 0; c < kCellChannels; ++c, cell += 4)
        for (int i = 0; i < 4; ++i) columns[c * kPageTokens + v * 4 + i] = cell[i];
  }
}

// All cells of a segment into the page; codes is [count][64].
void pack_columns(Side side, const SegmentLayout& segment, const uint8_t* codes, std::byte* page);

}  // namespace kvasir
