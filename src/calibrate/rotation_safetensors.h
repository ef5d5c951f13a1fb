// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Rotations as Kvasir writes them. Metadata of one side's file:
//
//   format     "kvasir rotations 1"
//   side       "key" or "value"
//   objective  what they were fitted to
//   grouping   "layer" or "per_kv_head"
//
// and the tensors layers.<i>.rotation, F32 [d, d] or [heads, d, d] with x_rot = x @ R, and layers.<i>.eigenvalues, F32
// [d] or [heads, d], or none. A file of both sides says "both", and `key.` or `value.` stands in front of objective,
// grouping and every tensor's name.
#pragma once

#include <span>
#include <string>

#include "calibrate/rotation_set.h"

namespace kvasir {

// One set, or one of each side; they must be valid. Throws Error io, invalid_argument, corrupt (an invalid set).
void write_rotation_safetensors(std::span<const RotationSet> sets, const std::string& path);

// The result is valid. Throws Error not_found, io, corrupt, unsupported, invalid_argument (the file has the other
// side).
RotationSet read_rotation_safetensors(const std::string& path, Side side);

}  // namespace kvasir
