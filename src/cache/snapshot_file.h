// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The container of a snapshot: named sections behind a JSON header. Numbers are little-endian.
//
//   [0, 64)   prefix (SnapshotPrefix): what every version of the format begins with
//   [64, ...) header, JSON: {"sections": [{"name", "offset", "bytes", "xxh3"}], "needs": [...], "content": {...}}
//   sections, each at a multiple of 4,096, so that pages of a mapped file lie as aligned as those of the pool
//
// Bytes between them are zero, and the file ends at a multiple of 4,096. Every byte is under a checksum or has to be
// zero, so no changed byte goes unnoticed.
//
// Versions: a minor one adds keys and sections, which older programs pass over; what they must not pass over is named
// in "needs". A new major one changes the rest, and older programs refuse it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/mapped_file.h"

namespace kvasir {

inline constexpr std::array<char, 8> kSnapshotMagic = {'K', 'V', 'A', 'S', 'I', 'R', 'S', 'Q'};
inline constexpr uint16_t kSnapshotMajor = 1, kSnapshotMinor = 0;
inline constexpr size_t kSnapshotAlignment = 4096;

struct SnapshotPrefix {
  std::array<char, 8> magic;
  uint16_t major, minor;
  uint32_t reserved;
  uint64_t header_bytes;
  uint64_t file_bytes;
  uint64_t header_checksum;  // XXH3-64 of the JSON
  uint64_t zeros[2];
  uint64_t checksum;  // XXH3-64 of the bytes before it
};
static_assert(sizeof(SnapshotPrefix) == 64 && std::is_trivially_copyable_v<SnapshotPrefix>);

class SnapshotWriter {
 public:
  // Bytes of a section, in pieces that have to live until write().
  void add(std::string name, std::vector<std::span<const std::byte>> pieces);
  // What a reader has to know to understand the file.
  void need(std::string feature) { needs_.push_back(std::move(feature)); }
  // Through a ReplacedFile: `path` holds the old file or the new one. Returns the file's bytes. Throws Error io.
  uint64_t write(const std::string& path, nlohmann::json content) const;

 private:
  struct Section {
    std::string name;
    std::vector<std::span<const std::byte>> pieces;
    uint64_t bytes = 0, checksum = 0;
  };
  std::vector<Section> sections_;
  std::vector<std::string> needs_;
};

class SnapshotFile {
 public:
  // Maps the file, has it read ahead, and checks all of it. `known`: the features of "needs" that the caller
  // understands. Throws Error: not_found, io, corrupt, unsupported (a newer version).
  SnapshotFile(const std::string& path, std::span<const std::string_view> known);

  const nlohmann::json& content() const { return content_; }
  std::span<const std::byte> section(const std::string& name) const;  // throws Error corrupt if there is none
  std::shared_ptr<const MappedFile> file() const { return file_; }
  // One sentence about this file: what is wrong, and the way out.
  [[noreturn]] void corrupt(const std::string& what) const;

 private:
  SnapshotPrefix read_prefix() const;
  void read_header(const SnapshotPrefix& prefix, std::span<const std::string_view> known);
  void check_sections(const SnapshotPrefix& prefix, const nlohmann::json& sections);
  void check_zeros(uint64_t first, uint64_t end) const;

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  nlohmann::json content_;
  struct Section {
    std::string name;
    std::span<const std::byte> bytes;
  };
  std::vector<Section> sections_;
};

}  // namespace kvasir
