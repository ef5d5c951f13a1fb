// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "attention/head_view.h"
#include "attention/kernels.h"
#include "codec/channel_map.h"

namespace kvasir {

// The map of a head, which for some codecs is written in its pages. Without pages nothing is mapped.
ChannelMap map_of(const HeadView& view, Side side);

// The queries of a block as every slice of the past needs them, worked out once.
struct QueryRows {
  int count = 0;
  std::vector<float> plain;   // [count, key_dim]: q times attention's scale
  std::vector<float> mapped;  // [count, mapped_dim]: the same in the basis of pages
  std::vector<float> means;   // [count]: what the mean of a fitted map adds to scores with pages; empty without one
  std::vector<float> sums;    // [count]: what a row's sum of weights starts from

  void read(const Kernels& kernels, const HeadView& view, const QueryBlock& block);
};

// x_r = T^-1 y_r of `rows` rows: [rows, mapped_dim] to [rows, dim], through products of tiles where the map is a fitted
// matrix.
void map_back(const Kernels& kernels, const ChannelMap& map, const float* y, int rows, float* x);

}  // namespace kvasir
