// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "calibrate/codec_fits.h"
#include "calibrate/rotation_set.h"
#include "kvasir/cache.h"

namespace kvasir {

// One side's rotations from any file that holds some: OSCAR's .pt, GGUF or safetensors, told apart by their first bytes
// whatever the file is called. The result is valid; whether it is the model's own, require_matches() says
// (calibrate/rotation_set.h). Throws Error not_found, io, corrupt, unsupported, invalid_argument.
RotationSet read_rotations(const std::string& path, Side side);

// The sides asked for of --rotations K_FILE[,V_FILE], checked against the model. One file is enough if it can hold both
// sides, which a .pt can't. Throws what read_rotations and require_matches throw; the message names the file.
GivenRotations read_given_rotations(const std::string& files, const Geometry& model, bool keys, bool values);

// What a path says by its end, .safetensors or .gguf. Throws Error invalid_argument for others.
enum class RotationFormat { safetensors, gguf };
RotationFormat rotation_format(const std::string& path);

// Throws as rotation_format does, and what the writers throw.
void write_rotations(std::span<const RotationSet> sets, const std::string& path);

}  // namespace kvasir
