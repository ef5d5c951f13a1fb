// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One array of an index: a view into a mapped file until it is changed, then memory of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <vector>

namespace kvasir {

// Blocks of codes start at cache lines, in memory as in the file.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};

template <typename T>
class Column {
 public:
  std::span<const T> get() const { return mapped_ ? view_ : std::span<const T>(own_); }
  void map(std::span<const T> view) {
    own_.clear();
    view_ = view;
    mapped_ = true;
  }

  // Makes room for `count` in all, so that the next resize can't fail. Values stay.
  void reserve(size_t count) {
    if (mapped_) {
      std::vector<T, LineAllocator<T>> own;
      own.reserve(count);
      own.assign(view_.begin(), view_.end());
      own_.swap(own);
      mapped_ = false;
    }
    if (count > own_.capacity()) own_.reserve(std::max(count, own_.capacity() + own_.capacity() / 2));
  }
  std::span<T> resize(size_t count) {  // new values are zero
    reserve(count);
    own_.resize(count);
    return own_;
  }

 private:
  std::span<const T> view_;
  std::vector<T, LineAllocator<T>> own_;
  bool mapped_ = false;
};

}  // namespace kvasir
