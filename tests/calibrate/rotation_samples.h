// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/rotation_set.h"

namespace kvasir::test {

struct SampleShape {
  Side side = Side::key;
  std::vector<int> layers = {0, 1};
  int dim = 8;
  int heads = 0;  // 0: shared by the layer, with eigenvalues
};

// Random rotations, the same for the same shape; named as OSCAR names its own.
RotationSet sample_rotations(const SampleShape& shape);

// What `read` throws as Error: its message; "" if it throws nothing. Other exceptions fail the test.
std::string fault_of(const std::function<void()>& read);

}  // namespace kvasir::test
