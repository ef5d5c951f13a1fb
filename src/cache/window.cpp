// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/window.h"

#include <cstring>
#include <utility>

namespace kvasir {

Window::Window(Pool& pool, const LayerGeometry& layer, const CacheOptions& options)
    : pool_(&pool),
      key_dim_(layer.key_dim),
      value_dim_(layer.value_dim),
      sink_rows_(options.sink),
      recent_rows_(recent_capacity(options)),
      bytes_(window_bytes(layer, options)),
      slot_(pool.allocate(bytes_)) {}

Window::Window(const Window& other)
    : pool_(other.pool_),
      key_dim_(other.key_dim_),
      value_dim_(other.value_dim_),
      sink_rows_(other.sink_rows_),
      recent_rows_(other.recent_rows_),
      bytes_(other.bytes_),
      slot_(other.pool_->allocate(other.bytes_)) {
  std::memcpy(slot_, other.slot_, bytes_);
}

Window::Window(Window&& other) noexcept
    : pool_(other.pool_),
      key_dim_(other.key_dim_),
      value_dim_(other.value_dim_),
      sink_rows_(other.sink_rows_),
      recent_rows_(other.recent_rows_),
      bytes_(other.bytes_),
      slot_(std::exchange(other.slot_, nullptr)) {}

Window::~Window() {
  if (slot_) pool_->release(slot_, bytes_);
}

Window Window::clone() const {
  return Window(*this);
}

uint16_t* Window::sink(Side side, int head) {
  const size_t rows = size_t(sink_rows_) + size_t(recent_rows_);
  auto* base = reinterpret_cast<uint16_t*>(slot_) + size_t(head) * rows * size_t(key_dim_ + value_dim_);
  return side == Side::key ? base : base + size_t(sink_rows_) * size_t(key_dim_);
}

uint16_t* Window::recent(Side side, int head) {
  uint16_t* base = sink(Side::key, head) + size_t(sink_rows_) * size_t(key_dim_ + value_dim_);
  return side == Side::key ? base : base + size_t(recent_rows_) * size_t(key_dim_);
}

}  // namespace kvasir
