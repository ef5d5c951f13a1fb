// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/window.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace kvasir {

Window::Window(const Window& other) : pool_(other.pool_), layer_(other.layer_), rows_(other.rows_) {
  if (!other.slot_) return;
  slot_ = pool_->allocate(other.bytes());
  std::memcpy(slot_, other.slot_, other.bytes());
}

Window::Window(Window&& other) noexcept
    : pool_(other.pool_), layer_(other.layer_), rows_(other.rows_), slot_(std::exchange(other.slot_, nullptr)) {}

Window::~Window() {
  if (slot_) pool_->release(slot_, bytes());
}

Window Window::clone() const {
  return Window(*this);
}

// Windows never shrink: truncation keeps what is allocated.
WindowRows Window::merged(const WindowRows& rows) const {
  return {std::max(rows_.sink, rows.sink), std::max(rows_.recent, rows.recent)};
}

size_t Window::growth(const WindowRows& rows) const {
  return window_bytes(*layer_, merged(rows)) - bytes();
}

void Window::grow(const WindowRows& rows) {
  const WindowRows wanted = merged(rows);
  if (wanted == rows_) return;
  // The old slot goes back before the new one is taken, so that a nearly full pool needs only the difference.
  const size_t old_bytes = bytes();
  std::vector<std::byte> old(slot_, slot_ + old_bytes);
  const WindowRows old_rows = rows_;
  if (slot_) pool_->release(slot_, old_bytes);
  slot_ = nullptr;
  rows_ = wanted;
  slot_ = pool_->allocate(window_bytes(*layer_, wanted));
  const auto* from = reinterpret_cast<const uint16_t*>(old.data());
  for (int head = 0; head < layer_->kv_heads; ++head) {
    const auto copy = [&](uint16_t* to, int row_count, int dim) {
      std::copy_n(from, size_t(row_count) * size_t(dim), to);
      from += size_t(row_count) * size_t(dim);
    };
    copy(sink(Side::key, head), old_rows.sink, layer_->key_dim);
    copy(sink(Side::value, head), old_rows.sink, layer_->value_dim);
    copy(recent(Side::key, head), old_rows.recent, layer_->key_dim);
    copy(recent(Side::value, head), old_rows.recent, layer_->value_dim);
  }
}

uint16_t* Window::sink(Side side, int head) {
  const size_t row_values = size_t(layer_->key_dim + layer_->value_dim);
  auto* base = reinterpret_cast<uint16_t*>(slot_) + size_t(head) * size_t(rows_.sink + rows_.recent) * row_values;
  return side == Side::key ? base : base + size_t(rows_.sink) * size_t(layer_->key_dim);
}

uint16_t* Window::recent(Side side, int head) {
  uint16_t* base = sink(Side::key, head) + size_t(rows_.sink) * size_t(layer_->key_dim + layer_->value_dim);
  return side == Side::key ? base : base + size_t(rows_.recent) * size_t(layer_->key_dim);
}

}  // namespace kvasir
