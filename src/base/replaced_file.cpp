// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/replaced_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kvasir/error.h"

namespace kvasir {

ReplacedFile::ReplacedFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".XXXXXX") {
  file_ = mkstemp(temporary_.data());
  if (file_ < 0) fail("can't be written");
  // mkstemp's files are private; this one is to have the permissions of any other.
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(file_, 0666 & ~mask);
}

ReplacedFile::~ReplacedFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void ReplacedFile::fail(const char* what) const {
  throw Error(ErrorCode::io, "`" + path_ + "` " + what + ": " + std::strerror(errno));
}

void ReplacedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("can't be written");
    bytes = bytes.subspan(size_t(written));
  }
}

void ReplacedFile::commit() {
  if (fsync(file_) != 0) fail("can't be written");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("can't be replaced");
  close(std::exchange(file_, -1));
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;  // the bytes are safe; only the new name may be lost in a crash
  fsync(directory);
  close(directory);
}

}  // namespace kvasir
