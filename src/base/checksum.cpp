// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#define XXH_INLINE_ALL  // nothing to link
#include <xxhash.h>

namespace kvasir {

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct PiecewiseChecksum::State {
  XXH3_state_t xxh3;
};

PiecewiseChecksum::PiecewiseChecksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}
PiecewiseChecksum::~PiecewiseChecksum() = default;

void PiecewiseChecksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

uint64_t PiecewiseChecksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

}  // namespace kvasir
