// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What an index is made of. Vectors have positions 0 .. count - 1 in all columns; removal moves the last one into the
// gap, so positions change and ids don't.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "kvasir/vector.h"
#include "vector/column.h"
#include "vector/encoder.h"

namespace kvasir {

class VectorIndexImpl {
 public:
  VectorIndexImpl(const VectorIndexOptions& options, const CodeTable& table);

  VectorIndexOptions options;
  VectorEncoder encoder;
  MappedFile file;          // what mapped columns look into
  std::vector<float> mean;  // [dim] or empty, of the vectors as `rotate` sees them
  int64_t count = 0;
  int64_t next_id = 0;  // above every id that was ever used

  Column<uint8_t> codes;   // [blocks] of block_bytes, code_layout.h
  Column<float> scales;    // [blocks * 32]
  Column<float> lengths;   // [blocks * 32]; cosine: |x|, l2: |x - mean|, inner product: none
  Column<float> along;     // [blocks * 32]; <mean, x - mean>, none without a mean
  Column<int64_t> ids;     // [count]
  Column<uint8_t> stored;  // [count] rows of stored_bytes(); cosine's f16 rows have length 1

  bool has_lengths() const { return options.metric != VectorMetric::inner_product; }
  size_t code_bytes() const { return block_bytes(encoder.table().bits, encoder.channels()); }  // of a block
  size_t stored_bytes() const;                                                                 // of a vector
  // -1 if there is no such vector.
  int64_t position_of(int64_t id) const;
};

// Throws Error invalid_argument that names the flag.
void check_options(const VectorIndexOptions& options);

}  // namespace kvasir
