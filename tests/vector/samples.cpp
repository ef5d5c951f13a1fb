// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vector/samples.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>

#include "base/random.h"

namespace kvasir::vector_test {

std::vector<float> normal_vectors(int64_t rows, int dim, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> values(size_t(rows) * size_t(dim));
  for (float& value : values) value = float(random.normal());
  return values;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvasir-vector-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

Refusal refusal(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace kvasir::vector_test
