// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npy files (format versions 1 to 3), as far as vectors need them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvasir {

struct NpyMatrix {
  int64_t rows = 0;
  int dim = 0;
  std::vector<float> values;  // [rows, dim]
};

// An array of two or more dimensions in C order, f2, f4 or f8 of this machine's byte order; leading dimensions are
// rows. Throws Error not_found, io, corrupt (not such a file), unsupported (another type or order), invalid_argument
// (NaN or infinity inside).
NpyMatrix read_npy(const std::string& path);

}  // namespace kvasir
