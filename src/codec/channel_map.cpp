// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/channel_map.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "transform/page_columns.h"
#include "transform/rotation.h"

namespace kvasir {

ChannelOrder channel_order(const SideLayout& layout, const std::byte* page) {
  if (!layout.codec.sort_channels) return {};
  ChannelOrder order(order_bytes(layout.dim()));
  std::memcpy(order.data(), page + layout.order, order.size());
  return order;
}

ChannelSums channel_sums(int dim, const float* x) {
  ChannelSums sums{std::vector<double>(size_t(dim), 0.0), std::vector<double>(size_t(dim), 0.0)};
  constexpr int kStrip = 8;
  for (int first = 0; first < dim; first += kStrip) {
    const int count = std::min(kStrip, dim - first);
    double sum[kStrip] = {}, square[kStrip] = {};
    for (int t = 0; t < kPageTokens; ++t) {
      double value[kStrip] = {};
      for (int i = 0; i < count; ++i) value[i] = double(x[t * dim + first + i]);
      for (int i = 0; i < kStrip; ++i) {
        sum[i] += value[i];
        square[i] += value[i] * value[i];
      }
    }
    std::copy_n(sum, count, sums.sum.data() + first);
    std::copy_n(square, count, sums.square.data() + first);
  }
  return sums;
}

ChannelOrder loudest_channels(const SideLayout& layout, const float* x) {
  if (!layout.codec.sort_channels) return {};
  const int dim = layout.dim();
  const auto [sum, square] = channel_sums(dim, x);
  std::vector<double> energy = square;
  if (layout.codec.center)
    for (size_t c = 0; c < energy.size(); ++c) energy[c] -= sum[c] * sum[c] / kPageTokens;
  std::vector<int> channels(static_cast<size_t>(dim));
  std::iota(channels.begin(), channels.end(), 0);
  std::stable_sort(channels.begin(), channels.end(),
                   [&](int a, int b) { return energy[size_t(a)] > energy[size_t(b)]; });
  ChannelOrder order(order_bytes(dim), 0);
  for (int i = 0; i < layout.segments[0].count; ++i) {
    const int channel = channels[size_t(i)];
    order[size_t(channel / 8)] = uint8_t(order[size_t(channel / 8)] | 1u << (channel % 8));
  }
  return order;
}

ChannelMap::ChannelMap(const SideLayout& layout, int head, const ChannelOrder& order)
    : fitted_(layout.fitted ? &layout.fitted->at(size_t(head)) : nullptr),
      runs_(layout.runs),
      projection_(layout.projection),
      dim_(layout.dim()),
      mapped_dim_(layout.mapped_dim()) {
  if (order.empty()) return;
  for (const bool first : {true, false})
    for (int c = 0; c < dim_; ++c)
      if (((order[size_t(c / 8)] >> (c % 8)) & 1) == int(first)) order_.push_back(uint16_t(c));
}

const float* ChannelMap::mean() const {
  return fitted_ != nullptr && !fitted_->mean.empty() ? fitted_->mean.data() : nullptr;
}

void ChannelMap::rotate(const float* x, float* y) const {
  if (fitted_ != nullptr) return fitted_->forward(x, y);
  if (order_.empty()) {
    std::copy(x, x + dim_, y);
  } else {
    for (int i = 0; i < dim_; ++i) y[i] = x[order_[size_t(i)]];
  }
  for (const RotatedRun& run : runs_) run.rotation->forward(y + run.first, y + run.first);
}

void ChannelMap::project(const float* y, float* z) const {
  projection_->forward(y, z);
}

void ChannelMap::rotate(const PageColumns& columns, const float* x, float* y) const {
  if (fitted_ != nullptr) return fitted_->forward(columns, x, y);
  thread_local std::vector<float> ordered;
  if (!order_.empty()) {
    ordered.resize(size_t(dim_) * kColumns);
    for (int i = 0; i < dim_; ++i)
      std::copy_n(x + order_[size_t(i)] * kColumns, kColumns, ordered.data() + i * kColumns);
    x = ordered.data();
  }
  if (runs_.empty()) std::copy_n(x, dim_ * kColumns, y);
  for (const RotatedRun& run : runs_)
    run.rotation->forward(columns, x + run.first * kColumns, y + run.first * kColumns);
}

void ChannelMap::project(const PageColumns& columns, const float* y, float* z) const {
  projection_->forward(columns, y, z);
}

// Of orthogonal maps T^-T = T, and a residual's projection is built so that its transpose is what decodes.
void ChannelMap::query(const float* q, float* y) const {
  if (fitted_ != nullptr) return fitted_->query(q, y);
  rotate(q, y);
  if (projection_ != nullptr) project(y, y + (mapped_dim_ - dim_));
}

void ChannelMap::inverse(const float* y, float* x) const {
  if (fitted_ != nullptr) return fitted_->inverse(y, x);
  thread_local std::vector<float> rotated;
  rotated.assign(y, y + dim_);
  if (projection_ != nullptr) {
    thread_local std::vector<float> projected;
    projected.resize(size_t(dim_));
    projection_->transpose(y + (mapped_dim_ - dim_), projected.data());
    if (mapped_dim_ == dim_) std::fill(rotated.begin(), rotated.end(), 0.0f);
    for (int c = 0; c < dim_; ++c) rotated[size_t(c)] += projected[size_t(c)];
  }
  for (const RotatedRun& run : runs_) run.rotation->transpose(rotated.data() + run.first, rotated.data() + run.first);
  for (int i = 0; i < dim_; ++i) x[order_.empty() ? i : order_[size_t(i)]] = rotated[size_t(i)];
}

}  // namespace kvasir
