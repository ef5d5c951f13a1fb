// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvasir {

// XXH3, 64 bits: finds any damage that isn't made on purpose, at the speed of memory.
uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace kvasir
