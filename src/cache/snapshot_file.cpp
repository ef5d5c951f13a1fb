// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Nothing of a file is believed before it is checked: the prefix by its own checksum, then the length, the header, the
// sections' places, their checksums, and the zeros between them.
#include "cache/snapshot_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.h"
#include "kvasir/error.h"

namespace kvasir {

using Json = nlohmann::json;

SnapshotFile::SnapshotFile(const std::string& path, std::span<const std::string_view> known) : path_(path) {
  if constexpr (std::endian::native != std::endian::little)
    throw Error(ErrorCode::unsupported, "snapshots are read on little-endian machines only");
  file_ = std::make_shared<const MappedFile>(path);
  const SnapshotPrefix prefix = read_prefix();
  file_->prefetch();
  try {
    read_header(prefix, known);
  } catch (const Json::exception& error) {
    corrupt("has a header that isn't a snapshot's");
  }
}

void SnapshotFile::corrupt(const std::string& what) const {
  throw Error(ErrorCode::corrupt,
              fmt::format("the snapshot `{}` {}: delete it, and let the sequence be read from its first token again",
                          path_, what));
}

SnapshotPrefix SnapshotFile::read_prefix() const {
  const std::span<const std::byte> bytes = file_->bytes();
  SnapshotPrefix prefix{};
  if (bytes.size() < sizeof prefix) corrupt("is cut off inside its header");
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  if (prefix.magic != kSnapshotMagic) corrupt("isn't one of Kvasir's, or its first bytes are damaged");
  if (prefix.checksum != checksum(bytes.first(offsetof(SnapshotPrefix, checksum))))
    corrupt("is damaged in its first 64 bytes");
  if (prefix.major != kSnapshotMajor)
    throw Error(ErrorCode::unsupported,
                fmt::format("the snapshot `{}` has format version {}.{}, this program reads versions {}.x: use the "
                            "program that wrote it, or delete it",
                            path_, prefix.major, prefix.minor, kSnapshotMajor));
  if (bytes.size() != prefix.file_bytes)
    corrupt(fmt::format("has {} bytes where its header says {}", bytes.size(), prefix.file_bytes));
  if (prefix.header_bytes > bytes.size() - sizeof prefix) corrupt("has a header that is longer than the file");
  return prefix;
}

void SnapshotFile::read_header(const SnapshotPrefix& prefix, std::span<const std::string_view> known) {
  const std::span<const std::byte> text = file_->bytes().subspan(sizeof prefix, prefix.header_bytes);
  if (checksum(text) != prefix.header_checksum) corrupt("has a damaged header");
  const auto* first = reinterpret_cast<const char*>(text.data());
  Json header = Json::parse(first, first + text.size());
  for (const Json& feature : header.value("needs", Json::array()))
    if (std::find(known.begin(), known.end(), feature.get<std::string>()) == known.end())
      throw Error(ErrorCode::unsupported,
                  fmt::format("the snapshot `{}` needs `{}`, which this program doesn't know: use the program that "
                              "wrote it, or delete it",
                              path_, feature.get<std::string>()));
  check_sections(prefix, header.at("sections"));
  content_ = std::move(header.at("content"));
}

void SnapshotFile::check_sections(const SnapshotPrefix& prefix, const Json& sections) {
  uint64_t end = sizeof prefix + prefix.header_bytes;
  for (const Json& entry : sections) {
    const auto name = entry.at("name").get<std::string>();
    const auto offset = entry.at("offset").get<uint64_t>(), bytes = entry.at("bytes").get<uint64_t>();
    if (offset % kSnapshotAlignment != 0 || offset < end || offset > prefix.file_bytes ||
        bytes > prefix.file_bytes - offset)
      corrupt("has a header whose sections lie outside the file");
    check_zeros(end, offset);
    sections_.push_back({name, file_->bytes().subspan(offset, bytes)});
    if (fmt::format("{:016x}", checksum(sections_.back().bytes)) != entry.at("xxh3").get<std::string>())
      corrupt("is damaged in its section `" + name + "`");
    end = offset + bytes;
  }
  check_zeros(end, prefix.file_bytes);
}

void SnapshotFile::check_zeros(uint64_t first, uint64_t end) const {
  const auto between = file_->bytes().subspan(first, end - first);
  if (std::any_of(between.begin(), between.end(), [](std::byte byte) { return byte != std::byte{}; }))
    corrupt("is damaged between its sections");
}

std::span<const std::byte> SnapshotFile::section(const std::string& name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name == name; });
  if (found == sections_.end()) corrupt("lacks the section `" + name + "`");
  return found->bytes;
}

}  // namespace kvasir
