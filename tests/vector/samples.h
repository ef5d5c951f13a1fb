// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kvasir/error.h"

namespace kvasir::vector_test {

std::vector<float> normal_vectors(int64_t rows, int dim, uint64_t seed);  // [rows, dim], N(0, 1)

// A folder that goes away with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

// The code of the Error that `run` throws, with its sentence; fails the test if it throws none.
struct Refusal {
  ErrorCode code = ErrorCode::internal;
  std::string sentence;
};
Refusal refusal(const std::function<void()>& run);

}  // namespace kvasir::vector_test
