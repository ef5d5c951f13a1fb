// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/layer_codecs.h"
#include "cache/pool.h"

namespace kvasir {

// The 16-bit part of one layer of one sequence: sink and recent rows of every KV head in one slot of the pool. It
// starts empty and grows with the sequence. Per head: sink K [S, key_dim], sink V [S, value_dim], recent K [R,
// key_dim], recent V [R, value_dim].
class Window {
 public:
  Window(Pool& pool, const LayerGeometry& layer) : pool_(&pool), layer_(&layer) {}
  ~Window();
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  Window clone() const;

  size_t bytes() const { return slot_ ? window_bytes(*layer_, rows_) : 0; }
  // Bytes that `grow` to these rows takes from the pool; 0 when they are there already.
  size_t growth(const WindowRows& rows) const;
  // Makes room, keeping the contents. Can't fail where the pool has `growth` bytes. Pointers into the window end.
  void grow(const WindowRows& rows);

  uint16_t* sink(Side side, int head);
  uint16_t* recent(Side side, int head);
  const uint16_t* sink(Side side, int head) const { return const_cast<Window*>(this)->sink(side, head); }
  const uint16_t* recent(Side side, int head) const { return const_cast<Window*>(this)->recent(side, head); }
  const WindowRows& rows() const { return rows_; }  // allocated
  int dim(Side side) const { return side == Side::key ? layer_->key_dim : layer_->value_dim; }

 private:
  Window(const Window& other);
  WindowRows merged(const WindowRows& rows) const;

  Pool* pool_;
  const LayerGeometry* layer_;
  WindowRows rows_;
  std::byte* slot_ = nullptr;
};

}  // namespace kvasir
