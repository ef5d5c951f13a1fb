// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of keys, which turns with their position. Many models add a large constant to every key before the rotary
// embedding (RoPE, arXiv 2104.09864) turns it: what keys have in common is a vector that goes round, and as a plain
// mean over positions nothing is left of it. Known once for each head, it needs no bits: it is taken off before keys
// are packed, and what it adds to scores is one number for each query and block of 8 positions.
//
// The first token of a text is most models' attention sink (arXiv 2309.17453): its key is hardly ever like others, but
// nearly the same in all texts, and half of all attention rests on it. So position 0 has a mean of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "kvasir/codec.h"

namespace kvasir {

// Channels a and b of queries and keys turn by `angle` radians from one position to the next: with z = x_a + i x_b,
// position p has z e^(i angle p).
struct RotaryPair {
  int a = 0, b = 0;
  double angle = 0;
  bool operator==(const RotaryPair&) const = default;
};
using Rotary = std::vector<RotaryPair>;  // of one layer; channels of no pair stay as they are

// x [dim] as it is so many positions further on, or back.
void turn(const Rotary& rotary, double positions, double* x);

// Positions of up to a page of rows: consecutive ones, or listed. Rows behind the last listed one repeat from the
// first.
struct RowPositions {
  int64_t first = 0;
  const int32_t* listed = nullptr;
  int count = kPageTokens;
  int64_t at(int row) const { return listed ? listed[row % count] : first + row; }
};

class TurningMean {
 public:
  // `means`: for each KV head the mean of its keys turned back to position 0, [dim]. `firsts`: likewise of the first
  // keys of texts; none: they are as others.
  TurningMean(Rotary rotary, int dim, std::vector<std::vector<float>> means, std::vector<std::vector<float>> firsts);

  int dim() const { return dim_; }
  int heads() const { return int(means_.size()); }
  // The mean of the block of positions (from a multiple of its length on) that `position` lies in: [dim]. One for all
  // of them, since all but the fastest pairs hardly turn within it; and the same whichever page a key lies in, so that
  // a decoded key is packed to the same codes again.
  static constexpr int kBlockLength = 8;
  void of_block(int head, int64_t position, float* mean) const;
  // What is taken off a key there: the mean of its block, or the first's own.
  void of_position(int head, int64_t position, float* mean) const;
  // What position 0 has beyond the mean of its block [dim], or null.
  const float* beyond_block(int head) const { return beyond_.empty() ? nullptr : beyond_[size_t(head)].data(); }
  static int64_t block_of(int64_t position) { return position / kBlockLength; }

  // What means add to scores. Blocks come in stretches of 64; each of `rows` queries [dim] becomes terms() numbers for
  // one of them, and <q, mean of its block n> is the product of those with column n of block_turns(): [terms, 64], as
  // attention's tiles of keys are.
  static constexpr int kBlocks = 64;
  static int64_t stretch_of(int64_t position) { return block_of(position) / kBlocks; }
  int terms() const { return int(2 * rotary_.size()) + 1; }
  void to_terms(int head, int64_t stretch, const float* q, int rows, float* terms) const;
  const float* block_turns() const { return block_turns_.data(); }

  // From 64 rows [64, dim], or so many.
  void remove(int head, const RowPositions& positions, float* rows) const {
    add(head, positions, kPageTokens, -1, rows);
  }
  void restore(int head, const RowPositions& positions, float* rows) const {
    add(head, positions, kPageTokens, 1, rows);
  }
  void remove(int head, const RowPositions& positions, int count, double* rows) const {
    add(head, positions, count, -1, rows);
  }

  // What makes it up, for checksums: numbers of blocks, pairs and means.
  std::vector<double> numbers() const;

 private:
  template <class Value>
  void add(int head, const RowPositions& positions, int count, int sign, Value* rows) const;
  // e^(i angle positions) of every pair: cosines, then sines. Of so many blocks, and of kBlocks steps of them.
  void write_turn(int64_t blocks, float* by) const;
  std::vector<float> turns(int64_t step) const;
  // z *= by, pair by pair; `by` is entry `index` of a table that turns() made.
  void turn_pairs(const float* by, float* re, float* im) const;
  void turn_pairs(const std::vector<float>& table, int64_t index, float* re, float* im) const {
    turn_pairs(table.data() + size_t(index) * 2 * rotary_.size(), re, im);
  }
  // The pairs of a head's mean, turned to the beginning of a stretch.
  void of_stretch(int head, int64_t stretch, float* re, float* im) const;

  Rotary rotary_;
  int dim_;
  std::vector<std::vector<float>> means_;   // as given
  std::vector<std::vector<float>> beyond_;  // firsts without the mean of their block
  // Of each head's first block: of the pairs channels a, then b; then all channels, 0 where they are in a pair.
  std::vector<std::vector<float>> blocks_;
  std::vector<float> near_, far_, farthest_;  // steps of a block, of a stretch, of kBlocks stretches
  std::vector<float> block_turns_;
};

}  // namespace kvasir
