// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One ggml matrix product per weight format, in every weight layout that ggml offers on this processor, against double
// precision. It is run when ggml is built and first thing in the tests: a ggml that uses an instruction the machine
// forbids dies here, with a name, and not in the middle of a model.
#pragma once

#include <string>
#include <vector>

namespace kvasir {

struct MatrixProduct {
  std::string name;    // "q4_0 in CPU_REPACK, 16 columns"
  double error = 0.0;  // largest |c - a.b| / (|a| |b|) over the product's entries
  double bound = 0.0;  // what rounding b to the format's partner type can cost (Cauchy-Schwarz)
};

// Throws std::runtime_error if ggml refuses to work at all.
std::vector<MatrixProduct> run_matrix_products();

}  // namespace kvasir
