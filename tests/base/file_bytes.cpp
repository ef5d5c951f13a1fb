// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/base/file_bytes.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvasir::test {

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void with_every_cut(const std::string& path, size_t step, const std::function<void(size_t size)>& read) {
  for (size_t size = std::filesystem::file_size(path); size > 0;) {
    size -= size < step ? size : step;
    std::filesystem::resize_file(path, size);
    read(size);
  }
}

// In place: a file system that is careful with replaced files takes milliseconds for each.
void with_every_flip(const std::string& path, size_t bytes, Bits bits, const std::function<void(size_t at)>& read) {
  const std::string whole = read_bytes(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t at, char value) {
    file.seekp(std::streamoff(at));
    file.put(value).flush();
  };
  for (size_t at = 0; at < bytes; ++at) {
    for (size_t bit = 0; bit < 8; ++bit) {
      if (bits == Bits::one_of_each_byte && bit != at % 8) continue;
      put(at, char(whole[at] ^ (1 << bit)));
      read(at);
    }
    put(at, whole[at]);
  }
}

}  // namespace kvasir::test
