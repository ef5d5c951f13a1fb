// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kvasir {

// XXH3, 64 bits: finds any damage that isn't made on purpose, at the speed of memory.
uint64_t checksum(std::span<const std::byte> bytes);

// The same number for bytes that come in pieces.
class PiecewiseChecksum {
 public:
  PiecewiseChecksum();
  ~PiecewiseChecksum();
  PiecewiseChecksum(const PiecewiseChecksum&) = delete;
  PiecewiseChecksum& operator=(const PiecewiseChecksum&) = delete;
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvasir
