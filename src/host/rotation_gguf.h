// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Rotations in GGUF, as OSCAR's llama.cpp reads them: tensors blk.<i>.attn_k_rot.weight and blk.<i>.attn_v_rot.weight,
// F32, transposed, so that ggml_mul_mat(rot, x) = x @ R. Shape [d, d], per head [d, d, heads]. A file may hold both
// sides, and a whole model beside them. Beyond that Kvasir writes the texts kvasir.rotation.<side>.objective and
// kvasir.rotation.<side>.grouping. Eigenvalues have no place in it: llama.cpp refuses tensors that it doesn't know.
#pragma once

#include <span>
#include <string>

#include "calibrate/rotation_set.h"

namespace kvasir {

// One set, or one of each side; they must be valid. Throws Error io, invalid_argument, corrupt (an invalid set).
void write_rotation_gguf(std::span<const RotationSet> sets, const std::string& path);

// The result is valid. Throws Error not_found, io, corrupt, unsupported (a type other than F32), invalid_argument (a
// GGUF file without rotations of this side).
RotationSet read_rotation_gguf(const std::string& path, Side side);

}  // namespace kvasir
