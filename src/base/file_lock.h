// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace kvasir {

// An advisory lock (flock) between processes, and between objects of one process; it ends with the object and with the
// process, however that ends. The file is made where it isn't there.
class FileLock {
 public:
  enum class Kind { shared, exclusive };
  // Waits. Throws Error io.
  FileLock(const std::string& path, Kind kind);
  // Empty if someone else has it. Throws Error io.
  static std::optional<FileLock> try_lock(const std::string& path, Kind kind);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  // Deletes the file, for locks that no one waits for: who opened it just before finds it gone and makes a new one.
  void remove_file();

 private:
  FileLock() = default;
  bool take(const std::string& path, Kind kind, bool wait);

  std::string path_;
  int file_ = -1;
};

}  // namespace kvasir
