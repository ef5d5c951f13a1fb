// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What codes stand for. Kept in the file beside the codes: a later change of the codebooks leaves old files readable.
#pragma once

#include <array>
#include <cstdint>

#include "kvasir/vector.h"

namespace kvasir {

struct CodeTable {
  int bits = 0;
  VectorCode kind = VectorCode::scalar;
  int offset = 0;                    // the level that stands for zero
  float step = 0.0f;                 // value = (level - offset) step, for a channel of unit variance
  std::array<uint8_t, 256> level{};  // scalar: of each code, 2^bits, ascending; trellis: of each window
  std::array<float, 256> value{};
  std::array<float, 15> edges{};  // scalar: 2^bits - 1 midpoints

  bool trellis() const { return kind == VectorCode::trellis; }
  int entries() const { return trellis() ? 256 : 1 << bits; }
};

// scalar: the Lloyd-Max levels of N(0,1) for bits 1..4 (quant/codebook.h); the sphere's own differ by less than 0.5 %
// of the squared error from 64 channels on. trellis: vector/trellis.h, bits 2 or 4.
CodeTable make_code_table(VectorCode kind, int bits);
// Fills in what follows from levels, offset and step. False if they make no table: not ascending where they should be,
// or out of a signed byte's range.
bool complete(CodeTable& table);

}  // namespace kvasir
