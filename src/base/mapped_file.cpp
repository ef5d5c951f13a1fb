// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kvasir/error.h"

namespace kvasir {

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw Error(ErrorCode::not_found, "`" + path + "` doesn't exist");
    throw Error(ErrorCode::io, "`" + path + "` can't be opened for reading: " + std::strerror(errno));
  }
  struct stat status {};
  const bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  void* data = nullptr;
  if (regular && status.st_size > 0) data = mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (!regular) throw Error(ErrorCode::not_found, "`" + path + "` isn't a file");
  if (data == MAP_FAILED) throw Error(ErrorCode::io, "`" + path + "` can't be mapped: " + std::strerror(error));
  data_ = static_cast<const std::byte*>(data);
  size_ = size_t(status.st_size);
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefetch() const {
  if (data_) madvise(const_cast<std::byte*>(data_), size_, MADV_WILLNEED);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace kvasir
