// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// ggml's own attention over one layer of one cache type, laid out as llama.cpp lays it out: the baseline of
// `bench attention`.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/layer_input.h"

namespace kvasir::cli {

class GgmlAttention {
 public:
  // `copies` caches of the type `type` ("f16", "q8_0", "q4_0"), each holding the tokens of `input`, the new ones
  // included, once for each sequence, in memory of its own. A block of several queries gets a causal mask in f16, as
  // llama.cpp passes one; a single query gets none, which is a little kind to the baseline. So is leaving out the
  // rotation that llama.cpp does around quantized caches, and the time that filling the cache takes.
  // Throws Error: unsupported if heads aren't whole blocks of the type, out_of_memory.
  GgmlAttention(const std::string& type, const LayerInput& input, int copies, int threads);
  ~GgmlAttention();

  // One step of attention: computes the graph of that copy.
  void run(int copy);
  // Its result, [batch, block, heads, value_dim].
  std::span<const float> output(int copy) const;

  size_t bytes() const;  // K and V of one copy

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir::cli
