// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace kvasir::test {

// Standard normal numbers, the same for the same seed.
inline std::vector<float> normal_floats(int count, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = float(random.normal());
  return x;
}

}  // namespace kvasir::test
