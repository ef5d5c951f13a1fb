// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Fixed-size slots out of one byte budget. Pages and windows of every sequence come from here, so what it has handed
// out is what the cache takes.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace kvasir {

class Pool {
 public:
  explicit Pool(size_t budget) : budget_(budget) {}  // 0 = no limit
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // A slot of `bytes`, 64-byte aligned, not cleared. Throws Error out_of_memory with the numbers; nothing changes.
  std::byte* allocate(size_t bytes);
  void release(std::byte* slot, size_t bytes);

  bool fits(size_t bytes) const { return budget_ == 0 || used_ + bytes <= budget_; }
  // Throws Error out_of_memory unless `bytes` more fit.
  void require(size_t bytes) const;

  // Pages of mapped files, which take no slot and none of the budget.
  void count_mapped(size_t bytes) { mapped_ += bytes; }
  void discount_mapped(size_t bytes) { mapped_ -= bytes; }

  size_t mapped() const { return mapped_; }
  size_t used() const { return used_; }  // bytes in slots handed out
  size_t peak() const { return peak_; }  // the most that `used` was since the last restart_peak
  void restart_peak() { peak_ = used_; }
  size_t reserved() const { return reserved_; }  // bytes taken from the system
  size_t budget() const { return budget_; }

 private:
  // Slots of one size are cut from slabs; a slab whose slots are all back returns to the system.
  struct Slab {
    std::byte* memory;
    size_t slots, live;
  };
  struct SizeClass {
    size_t stride = 0;
    std::map<std::byte*, Slab> slabs;  // by address
    std::vector<std::byte*> free;
  };
  void grow(SizeClass& size_class);
  void shrink(SizeClass& size_class, std::byte* base);

  size_t budget_, used_ = 0, peak_ = 0, reserved_ = 0, mapped_ = 0;
  std::map<size_t, SizeClass> classes_;
};

}  // namespace kvasir
