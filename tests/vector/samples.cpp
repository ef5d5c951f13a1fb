// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vector/samples.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvasir::vector_test {

std::vector<float> normal_vectors(int64_t rows, int dim, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> values(size_t(rows) * size_t(dim));
  for (float& value : values) value = float(random.normal());
  return values;
}

Refusal refusal(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace kvasir::vector_test
