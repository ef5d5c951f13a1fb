// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/mapped_file.h"
#include "cache/pool.h"

namespace kvasir {

// A full page of one (layer, KV head): the key side, then the value side. Immutable once packed and shared by
// reference count between forks. Counts are plain integers: a Cache is used by one thread at a time.
//
// A page lies in a slot of the pool, or in a snapshot that is mapped read-only (cache/snapshot.h) and kept alive by the
// pages that point into it; writing there would end the process.
class PageRef {
 public:
  PageRef() = default;
  static PageRef allocate(Pool& pool, size_t bytes) {
    PageRef ref;
    ref.page_ = new Shared{&pool, pool.allocate(bytes), bytes, 1, nullptr};
    return ref;
  }
  // The `bytes` at `first` of `file`. They don't count against the pool's budget (kvasir/cache.h, CacheSize).
  static PageRef map(Pool& pool, std::shared_ptr<const MappedFile> file, const std::byte* first, size_t bytes) {
    PageRef ref;
    ref.page_ = new Shared{&pool, const_cast<std::byte*>(first), bytes, 1, std::move(file)};
    pool.count_mapped(bytes);
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
    if (page_->file)
      page_->pool->discount_mapped(page_->size);
    else
      page_->pool->release(page_->bytes, page_->size);
    delete page_;
  }

  std::byte* bytes() const { return page_->bytes; }
  int references() const { return page_ ? page_->references : 0; }
  bool mapped() const { return page_ && page_->file; }

 private:
  struct Shared {
    Pool* pool;
    std::byte* bytes;
    size_t size;
    int references;
    std::shared_ptr<const MappedFile> file;  // null: the pool's
  };
  Shared* page_ = nullptr;
};

}  // namespace kvasir
