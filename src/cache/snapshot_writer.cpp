// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.h"
#include "base/replaced_file.h"
#include "cache/snapshot_file.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr size_t kBuffer = size_t(1) << 20;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
}

// Names that aren't UTF-8 are for people only; what isn't goes to sections.
std::string as_text(const nlohmann::json& header) {
  return header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Pages are small, and a system call for each would take longer than the copy.
class BufferedFile {
 public:
  explicit BufferedFile(const std::string& path) : file_(path) { buffer_.reserve(kBuffer); }
  void write(std::span<const std::byte> bytes) {
    written_ += bytes.size();
    while (!bytes.empty()) {
      const size_t part = std::min(bytes.size(), kBuffer - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + ptrdiff_t(part));
      bytes = bytes.subspan(part);
      if (buffer_.size() == kBuffer) flush();
    }
  }
  void fill_to(uint64_t offset) {
    static constexpr std::array<std::byte, kSnapshotAlignment> kZeros{};
    while (written_ < offset)
      write(std::span(kZeros).first(size_t(std::min<uint64_t>(offset - written_, kZeros.size()))));
  }
  void commit() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }
  ReplacedFile file_;
  std::vector<std::byte> buffer_;
  uint64_t written_ = 0;
};

}  // namespace

void SnapshotWriter::add(std::string name, std::vector<std::span<const std::byte>> pieces) {
  Section section{std::move(name), std::move(pieces), 0, 0};
  PiecewiseChecksum sum;
  for (const auto& piece : section.pieces) {
    sum.add(piece);
    section.bytes += piece.size();
  }
  section.checksum = sum.value();
  sections_.push_back(std::move(section));
}

uint64_t SnapshotWriter::write(const std::string& path, nlohmann::json content) const {
  if constexpr (std::endian::native != std::endian::little)
    throw Error(ErrorCode::unsupported, "snapshots are written on little-endian machines only");
  nlohmann::json header = {{"needs", needs_}, {"content", std::move(content)}, {"sections", nlohmann::json::array()}};
  // Sections follow the header, whose length depends on the digits of their places: it is given room to spare.
  for (const Section& section : sections_)
    header["sections"].push_back({{"name", section.name},
                                  {"offset", UINT64_MAX},
                                  {"bytes", section.bytes},
                                  {"xxh3", fmt::format("{:016x}", section.checksum)}});
  uint64_t end = aligned(sizeof(SnapshotPrefix) + as_text(header).size());
  std::vector<uint64_t> offsets;
  for (size_t i = 0; i < sections_.size(); ++i) {
    offsets.push_back(end);
    header["sections"][i]["offset"] = end;
    end = aligned(end + sections_[i].bytes);
  }
  const std::string text = as_text(header);
  SnapshotPrefix prefix{};
  prefix.magic = kSnapshotMagic;
  prefix.major = kSnapshotMajor;
  prefix.minor = kSnapshotMinor;
  prefix.header_bytes = text.size();
  prefix.file_bytes = end;
  prefix.header_checksum = checksum(std::as_bytes(std::span(text)));
  prefix.checksum = checksum(std::as_bytes(std::span(&prefix, 1)).first(offsetof(SnapshotPrefix, checksum)));

  BufferedFile file(path);
  file.write(std::as_bytes(std::span(&prefix, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (size_t i = 0; i < sections_.size(); ++i) {
    file.fill_to(offsets[i]);
    for (const auto& piece : sections_[i].pieces) file.write(piece);
  }
  file.fill_to(end);
  file.commit();
  return end;
}

}  // namespace kvasir
