// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cache/pool.h"

namespace kvasir {

// A full page of one (layer, KV head): the key side, then the value side. Immutable once packed and shared by
// reference count between forks. Counts are plain integers: a Cache is used by one thread at a time.
class PageRef {
 public:
  PageRef() = default;
  static PageRef allocate(Pool& pool, size_t bytes) {
    PageRef ref;
    ref.page_ = new Shared{&pool, pool.allocate(bytes), bytes, 1};
    return ref;
  }
  PageRef(const PageRef& other) : page_(other.page_) {
    if (page_) ++page_->references;
  }
  PageRef(PageRef&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  PageRef& operator=(PageRef other) noexcept {
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef() {
    if (!page_ || --page_->references > 0) return;
    page_->pool->release(page_->bytes, page_->size);
    delete page_;
  }

  std::byte* bytes() const { return page_->bytes; }
  int references() const { return page_ ? page_->references : 0; }

 private:
  struct Shared {
    Pool* pool;
    std::byte* bytes;
    size_t size;
    int references;
  };
  Shared* page_ = nullptr;
};

}  // namespace kvasir
