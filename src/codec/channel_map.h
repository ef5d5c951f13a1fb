// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The map y = T x of one side of one KV head, in its steps: channels are put in order, runs of them are rotated, and
// codecs that store signs of a residual stack a projection of the result on top: T = [R; S R].
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

class ChannelMap {
 public:
  explicit ChannelMap(const SideLayout& layout, const ChannelOrder& order = {});

  bool identity() const { return runs_.empty() && projection_ == nullptr; }
  void forward(const float* x, float* y) const;    // y = T x: [dim] to [mapped_dim]; for keys, values and queries
  void transpose(const float* y, float* x) const;  // x = T^T y: [mapped_dim] to [dim]; decodes, and maps outputs back

  // The two steps of `forward`, since what is projected when encoding is the residual.
  void rotate(const float* x, float* y) const;   // [dim] to [dim]
  void project(const float* y, float* z) const;  // [dim] to [dim]: z = S y

 private:
  const std::vector<RotatedRun>& runs_;
  const Rotation* projection_;
  int dim_, mapped_dim_;
  std::vector<uint16_t> order_;  // channel order_[i] goes to place i; empty: as they come
};

}  // namespace kvasir
