// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"

namespace kvasir::vector_test {

std::vector<float> normal_vectors(int64_t rows, int dim, uint64_t seed);  // [rows, dim], N(0, 1)

using Folder = test::TemporaryFolder;
using test::read_bytes;
using test::write_bytes;

// The code of the Error that `run` throws, with its sentence; fails the test if it throws none.
struct Refusal {
  ErrorCode code = ErrorCode::internal;
  std::string sentence;
};
Refusal refusal(const std::function<void()>& run);

}  // namespace kvasir::vector_test
