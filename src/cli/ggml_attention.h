// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// ggml's own attention over one layer of one cache type, laid out as llama.cpp lays it out: the baseline of
// `bench attention`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvasir/cache.h"

namespace kvasir::cli {

class GgmlAttention {
 public:
  // `copies` caches of the type `type` ("f16", "q8_0", "q4_0"), each holding the same k and v [tokens, kv_heads, dim]
  // in memory of its own. Throws Error unsupported if heads aren't whole blocks of the type.
  GgmlAttention(const std::string& type, const LayerGeometry& layer, int64_t tokens, std::span<const float> k,
                std::span<const float> v, int copies, int threads);
  ~GgmlAttention();

  // Sets the query of copy `copy`, [heads, dim]; not part of what is timed.
  void set_query(int copy, std::span<const float> q);
  // One decode step of attention: computes the graph of that copy.
  void run(int copy);
  // Its result, [heads, dim].
  std::span<const float> output(int copy) const;

  size_t bytes() const;  // K and V of one copy

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir::cli
