// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "calibrate/rotation_set.h"

namespace kvasir {

// One side's rotations from any file that holds some: OSCAR's .pt, GGUF or safetensors, told apart by their first bytes
// whatever the file is called. The result is valid; whether it is the model's own, require_matches() says
// (calibrate/rotation_set.h). Throws Error not_found, io, corrupt, unsupported, invalid_argument.
RotationSet read_rotations(const std::string& path, Side side);

}  // namespace kvasir
