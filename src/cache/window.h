// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/layer_codecs.h"
#include "cache/pool.h"

namespace kvasir {

// The 16-bit part of one layer of one sequence: sink and recent rows of every KV head in one slot of the pool.
// Per head: sink K [S, key_dim], sink V [S, value_dim], recent K [R, key_dim], recent V [R, value_dim].
class Window {
 public:
  Window(Pool& pool, const LayerGeometry& layer, const CacheOptions& options);
  ~Window();
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  Window clone() const;

  uint16_t* sink(Side side, int head);
  uint16_t* recent(Side side, int head);
  const uint16_t* sink(Side side, int head) const { return const_cast<Window*>(this)->sink(side, head); }
  const uint16_t* recent(Side side, int head) const { return const_cast<Window*>(this)->recent(side, head); }
  int dim(Side side) const { return side == Side::key ? key_dim_ : value_dim_; }

 private:
  Window(const Window& other);

  Pool* pool_;
  int key_dim_, value_dim_, sink_rows_, recent_rows_;
  size_t bytes_;
  std::byte* slot_;
};

}  // namespace kvasir
