// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvasir {

// Writes a file so that `path` holds either what it held before or all of the new bytes, whatever happens: a temporary
// file in the same folder, synced, renamed over `path` by commit(), the folder synced. Without commit() nothing stays.
class ReplacedFile {
 public:
  // Throws Error io.
  explicit ReplacedFile(std::string path);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace kvasir
