// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvasir {

// A whole file, read-only in memory. Page-aligned, so what lies at a multiple of 64 in the file does so in memory.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws Error not_found, io.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept { *this = static_cast<MappedFile&&>(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Asks the system to read all of it ahead; returns at once.
  void prefetch() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvasir
