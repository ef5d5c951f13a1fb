// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSlabBytes = 256 * 1024;  // larger slots get a slab of their own

}  // namespace

Pool::~Pool() {
  for (auto& [bytes, size_class] : classes_)
    for (auto& [base, slab] : size_class.slabs) std::free(slab.memory);
}

void Pool::require(size_t bytes) const {
  if (fits(bytes)) return;
  throw Error(ErrorCode::out_of_memory, "the KV pool of " + std::to_string(budget_) + " bytes holds " +
                                            std::to_string(used_) + " and can't take " + std::to_string(bytes) +
                                            " more: raise --kv-budget, shorten the context or choose a smaller --kv");
}

void Pool::grow(SizeClass& size_class) {
  const size_t slots = std::max<size_t>(1, kSlabBytes / size_class.stride);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, slots * size_class.stride));
  if (!memory)
    throw Error(ErrorCode::out_of_memory,
                "the system has no memory for a KV slab of " + std::to_string(slots * size_class.stride) + " bytes");
  reserved_ += slots * size_class.stride;
  size_class.slabs.emplace(memory, Slab{memory, slots, 0});
  for (size_t i = slots; i-- > 0;) size_class.free.push_back(memory + i * size_class.stride);
}

std::byte* Pool::allocate(size_t bytes) {
  require(bytes);
  SizeClass& size_class = classes_[bytes];
  size_class.stride = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (size_class.free.empty()) grow(size_class);
  std::byte* slot = size_class.free.back();
  size_class.free.pop_back();
  ++std::prev(size_class.slabs.upper_bound(slot))->second.live;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return slot;
}

void Pool::release(std::byte* slot, size_t bytes) {
  SizeClass& size_class = classes_.at(bytes);
  const auto slab = std::prev(size_class.slabs.upper_bound(slot));
  size_class.free.push_back(slot);
  used_ -= bytes;
  if (--slab->second.live == 0) shrink(size_class, slab->first);
}

void Pool::shrink(SizeClass& size_class, std::byte* base) {
  const Slab slab = size_class.slabs.at(base);
  std::byte* end = base + slab.slots * size_class.stride;
  std::erase_if(size_class.free, [&](std::byte* slot) { return slot >= base && slot < end; });
  size_class.slabs.erase(base);
  std::free(slab.memory);
  reserved_ -= slab.slots * size_class.stride;
}

}  // namespace kvasir
