// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "kvasir/cache.h"

namespace kvasir {

// A sequence that goes away with this object, unless it is released: `ScopedSequence reader(cache,
// cache.fork(source))`.
class ScopedSequence {
 public:
  ScopedSequence(Cache& cache, SequenceId id) : cache_(cache), id_(id) {}
  ~ScopedSequence() {
    if (id_ >= 0) cache_.remove(id_);
  }
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;

  SequenceId id() const { return id_; }
  SequenceId release() { return std::exchange(id_, -1); }

 private:
  Cache& cache_;
  SequenceId id_;
};

}  // namespace kvasir
