// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Segments whose codes are those of a trellis (quant/trellis_code.h). A segment of a page is one circle of 32
// sequences: the bytes of its vectors, cell after cell, block after block, back from the last to the first. What is
// neighbour in a sequence are other tokens and channels; each is divided by its own token's scale.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/page_layout.h"

namespace kvasir {

// Scales and codes of segment `index`; y is its channels in columns [count][64], without the mean.
void encode_trellis_segment(const SideLayout& layout, int index, const float* y, std::byte* page);

// Levels of one cell, [8 vectors][32]; `index` counts the segment's cells through both blocks, `cells` is their number.
void unpack_trellis_cell(const TrellisCode& code, const std::byte* codes, int cells, int index, uint8_t* levels);

}  // namespace kvasir
