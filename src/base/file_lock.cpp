// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kvasir/error.h"

namespace kvasir {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorCode::io, "`" + path + "` can't be locked: " + std::strerror(errno));
}

// Whether the open file is still what the path names.
bool still_there(int file, const std::string& path) {
  struct stat open {
  }, named{};
  return fstat(file, &open) == 0 && stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

}  // namespace

FileLock::FileLock(const std::string& path, Kind kind) {
  take(path, kind, true);
}

std::optional<FileLock> FileLock::try_lock(const std::string& path, Kind kind) {
  FileLock lock;
  if (!lock.take(path, kind, false)) return std::nullopt;
  return lock;
}

bool FileLock::take(const std::string& path, Kind kind, bool wait) {
  for (;;) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) fail(path);
    const int operation = (kind == Kind::shared ? LOCK_SH : LOCK_EX) | (wait ? 0 : LOCK_NB);
    int status;
    do status = flock(file, operation);
    while (status != 0 && errno == EINTR);
    if (status != 0) {
      const int error = errno;
      close(file);
      if (error == EWOULDBLOCK) return false;
      errno = error;
      fail(path);
    }
    if (still_there(file, path)) {
      path_ = path;
      file_ = file;
      return true;
    }
    close(file);  // its last owner removed it between our open and our lock
  }
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

FileLock::FileLock(FileLock&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

void FileLock::remove_file() {
  unlink(path_.c_str());
}

}  // namespace kvasir
