// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The zip archive around what torch.save writes: members <stem>/data.pkl, <stem>/data/0, …, all of them stored as they
// are. Anything else in it, compressed or encrypted members, and damage (each member has a CRC-32) are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"

struct zip;

namespace kvasir {

class TorchArchive {
 public:
  // Throws Error not_found, io, corrupt (damaged), unsupported (not such an archive). Looks at every member's name and
  // size, at the version and the byte order.
  explicit TorchArchive(const std::string& path);

  // What messages call it: the path in backticks.
  const std::string& source() const { return source_; }

  std::vector<std::byte> pickle() const { return read("data.pkl"); }
  // Keys of the storages and their bytes.
  const std::map<std::string, uint64_t>& storages() const { return storages_; }
  // The floats of data/<key>. Throws Error corrupt.
  std::vector<float> storage(const std::string& key) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  void open();
  void list_members();
  void add_member(uint64_t index);
  void require_little_endian() const;
  std::vector<std::byte> read(const std::string& name) const;

  std::string source_;
  MappedFile file_;
  std::unique_ptr<zip, Close> archive_;
  std::string stem_;
  struct Member {
    uint64_t index, bytes;
  };
  std::map<std::string, Member> members_;  // by name behind the stem
  std::map<std::string, uint64_t> storages_;
};

}  // namespace kvasir
