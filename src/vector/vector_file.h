// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Vectors from files, by the ending of the name:
//
//   .fvecs  rows of an int32 dim and that many floats
//   .npy    base/npy_file.h
//   .json   [[numbers], ...], {"vectors": [[numbers], ...]} or {"vectors": {name: [numbers], ...}}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvasir {

struct VectorFile {
  int64_t rows = 0;
  int dim = 0;
  std::vector<float> values;       // [rows, dim]
  std::vector<std::string> names;  // [rows] where the file names its vectors, else empty
};

// Throws Error not_found, io, corrupt, unsupported (another kind of file), invalid_argument (NaN or infinity inside,
// rows of different length).
VectorFile read_vectors(const std::string& path);

void write_fvecs(const std::string& path, std::span<const float> values, int dim);

}  // namespace kvasir
