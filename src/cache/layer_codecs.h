// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From names to codecs: which codec each side of each layer gets, with overrides and default protections applied.
#pragma once

#include <vector>

#include "codec/page_layout.h"
#include "kvasir/cache.h"

namespace kvasir {

// What one layer's cache needs to know, worked out once.
struct LayerCodecs {
  SideLayout key, value;
  size_t page_bytes() const { return key.bytes + value.bytes; }  // one KV head, 64 tokens
  HalfKind key_window() const { return window_kind(key); }
  HalfKind value_window() const { return window_kind(value); }

 private:
  // Windows are f16, except that a bf16 cache keeps its range in them too.
  static HalfKind window_kind(const SideLayout& side) {
    return side.raw() && side.segments[0].half == HalfKind::bf16 ? HalfKind::bf16 : HalfKind::f16;
  }
};

// Throws Error: what make_codec throws, and invalid_argument for windows below zero or layers outside the model.
std::vector<LayerCodecs> resolve_codecs(const Geometry& geometry, const CacheOptions& options);

// Rows of the recent window at most: W + 2 P. Before a block of 64 is appended fewer than W + P tokens are unpacked.
int recent_capacity(const CacheOptions& options);

// Rows that a sequence of `tokens` tokens has allocated in each window: multiples of 64 up to the full windows, so that
// a short sequence takes little.
struct WindowRows {
  int sink = 0, recent = 0;
  bool operator==(const WindowRows&) const = default;
};
WindowRows window_rows(const CacheOptions& options, int64_t tokens);

// Bytes of one layer's 16-bit windows with that many rows.
size_t window_bytes(const LayerGeometry& layer, const WindowRows& rows);

// Packed pages per KV head of a layer after `tokens` tokens, and how many of the oldest a sliding window has dropped.
struct PageCount {
  int64_t packed = 0, dropped = 0;
  int64_t live() const { return packed - dropped; }
};
// `first`: where contiguous pages start, S unless selection has gone over earlier tokens.
PageCount page_count(const LayerGeometry& layer, int64_t first, int recent, int64_t tokens);

}  // namespace kvasir
