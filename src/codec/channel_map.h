// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The map y = T x of one side of one KV head, in its steps: channels are put in order, runs of them are rotated, and
// codecs that store signs of a residual stack a projection of the result on top: T = [R; S R]. Or it is the one matrix
// that a calibration fitted to the head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/page_layout.h"

namespace kvasir {

// Which channels belong to the first segment (Codec::sort_channels), one bit each. Empty for all other codecs.
using ChannelOrder = std::vector<uint8_t>;

// As written into a page.
ChannelOrder channel_order(const SideLayout& layout, const std::byte* page);
// Those of most energy over 64 vectors [64, dim], about their mean if the codec removes it; of equals the first.
ChannelOrder loudest_channels(const SideLayout& layout, const float* x);

// Of each channel of 64 vectors [64, dim].
struct ChannelSums {
  std::vector<double> sum, square;
};
ChannelSums channel_sums(int dim, const float* x);

class ChannelMap {
 public:
  // `head`: the KV head, which fitted maps differ by.
  explicit ChannelMap(const SideLayout& layout, int head = 0, const ChannelOrder& order = {});

  void query(const float* q, float* y) const;    // y = T^-T q: [dim] to [mapped_dim]
  void inverse(const float* y, float* x) const;  // x = T^-1 y: [mapped_dim] to [dim]; maps outputs back
  // mu of a fitted map, [dim]: what a decoded vector lacks, and scores q.mu with it. Null if there is none.
  const float* mean() const;
  // The matrix that a calibration fitted, if that is the whole map.
  const FittedMap* fitted() const { return fitted_; }
  int dim() const { return dim_; }
  int mapped_dim() const { return mapped_dim_; }

  // The two steps of encoding, since what is projected is the residual.
  void rotate(const float* x, float* y) const;   // y = R x or T (x - mu): [dim] to [dim], or to [mapped_dim] if fitted
  void project(const float* y, float* z) const;  // [dim] to [dim]: z = S y
  // The same of a page in columns (transform/page_columns.h): [dim][64] to [dim][64] or [mapped_dim][64]. Inputs and
  // results don't overlap.
  void rotate(const PageColumns& columns, const float* x, float* y) const;
  void project(const PageColumns& columns, const float* y, float* z) const;

 private:
  const FittedMap* fitted_;
  const std::vector<RotatedRun>& runs_;
  const Rotation* projection_;
  int dim_, mapped_dim_;
  std::vector<uint16_t> order_;  // channel order_[i] goes to place i; empty: as they come
};

}  // namespace kvasir
