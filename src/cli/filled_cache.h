// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Our side of `bench attention`: one layer's cache, filled without attending, and single steps over it.
#pragma once

#include <span>
#include <vector>

#include "cli/layer_input.h"
#include "kvasir/attention.h"
#include "kvasir/cache.h"

namespace kvasir::cli {

// The write side of attend() alone, on layer 0: `count` rows enter the windows, pages that fill up are packed.
void append_rows(Cache& cache, SequenceId sequence, const HeadsView& k, const HeadsView& v, int count, int threads);
// All of [first, last) of `input`, at most `block` tokens at a time.
void append_tokens(Cache& cache, SequenceId sequence, const LayerInput& input, int64_t first, int64_t last, int block,
                   int threads);

class FilledCache {
 public:
  // `copies` times the `batch` sequences of `input` with its past, each encoded into pages of its own.
  FilledCache(const LayerInput& input, const CacheOptions& options, int copies);

  // Around every step or append of a copy; not part of what is timed.
  void prepare(int copy);
  void undo(int copy);
  // The step itself: out [batch, block, heads, value_dim].
  void step(std::span<float> out, const AttentionOptions& options);
  // Only what the step does before it attends: encoding, of one sequence after the other.
  void append(int threads);

  // Output row `row` of sequence `sequence` by the double-precision path over the same pages, [heads, value_dim];
  // leaves the cache as it was.
  std::vector<float> reference(int sequence, int row, const AttentionOptions& options);

  const Cache& cache() const { return cache_; }
  size_t bytes() const;  // of the sequences of one copy

 private:
  std::span<const SequenceId> sequences(int copy) const;

  const LayerInput& input_;
  Cache cache_;
  std::vector<SequenceId> sequences_;  // [copy, batch]
  std::vector<SequenceSpan> spans_;    // of the step that was prepared
};

}  // namespace kvasir::cli
