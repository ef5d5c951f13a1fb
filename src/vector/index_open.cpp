// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads nothing of a file before it is known to be there: the header's own checksum first, then every number in it
// against its range, then the sections' places against the file's length, then their checksums.
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/checksum.h"
#include "kvasir/error.h"
#include "vector/index_file.h"
#include "vector/index_impl.h"

namespace kvasir {
namespace {

class Reader {
 public:
  Reader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  const IndexHeader& header() const { return header_; }

  void read_header() {
    if (bytes_.size() < kIndexMagic.size() || std::memcmp(bytes_.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
      corrupt("isn't a vector index");
    if (bytes_.size() < offsetof(IndexHeader, header_bytes)) corrupt("is cut off inside its header");
    uint32_t version;
    std::memcpy(&version, bytes_.data() + offsetof(IndexHeader, version), sizeof version);
    if (version != kIndexVersion)
      throw Error(ErrorCode::unsupported, "`" + path_ + "` is an index of version " + std::to_string(version) +
                                              "; this program reads version " + std::to_string(kIndexVersion));
    if (bytes_.size() < sizeof header_) corrupt("is cut off inside its header");
    std::memcpy(&header_, bytes_.data(), sizeof header_);
    if (header_.header_bytes != sizeof header_ ||
        header_.checksum != checksum(bytes_.first(offsetof(IndexHeader, checksum))))
      corrupt("has a damaged header");
  }

  VectorIndexOptions options() const {
    const IndexHeader& h = header_;
    const bool sound = h.dim >= 1 && h.dim <= 65536 && h.bits >= 1 && h.bits <= 4 &&
                       h.metric <= uint8_t(VectorMetric::l2) && h.rerank <= uint8_t(RerankStore::original) &&
                       h.center <= 1 && h.code <= uint8_t(VectorCode::trellis) && h.has_mean <= 1 && h.count >= 0 &&
                       h.count <= VectorIndex::kMaxVectors && h.next_id >= 0 &&
                       h.channels == uint32_t(rotated_channels(int(h.dim)));
    if (!sound) corrupt("has numbers in its header that no index has");
    VectorIndexOptions options;
    options.dim = int(h.dim);
    options.bits = int(h.bits);
    options.metric = VectorMetric(h.metric);
    options.rerank = RerankStore(h.rerank);
    options.code = VectorCode(h.code);
    options.seed = h.seed;
    options.center = h.center != 0;
    return options;
  }

  CodeTable table() const {
    CodeTable table;
    table.bits = int(header_.bits);
    table.kind = VectorCode(header_.code);
    table.offset = header_.offset;
    table.step = header_.step;
    table.level = header_.level;
    if (table.offset < 0 || table.offset > 255 || !complete(table)) corrupt("has no valid levels in its header");
    return table;
  }

  // The sections' places follow from their sizes; the file ends with the last.
  void check_sections(const std::array<uint64_t, kIndexSections>& bytes) const {
    uint64_t end = sizeof header_;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const IndexSection& section = header_.sections[i];
      if (section.offset != end || section.bytes != bytes[i]) corrupt("has sections of the wrong size");
      end = (end + bytes[i] + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
    }
    if (bytes_.size() < end) corrupt("is cut off");
    if (bytes_.size() > end) corrupt("is longer than it says");
  }
  void verify() const {
    constexpr const char* kNames[] = {"codes", "scales",         "lengths", "products with the mean",
                                      "ids",   "stored vectors", "mean"};
    for (size_t i = 0; i < header_.sections.size(); ++i) {
      const IndexSection& section = header_.sections[i];
      if (checksum(bytes_.subspan(section.offset, section.bytes)) != section.checksum)
        corrupt(std::string("is damaged: the checksum of its ") + kNames[i] + " is wrong");
    }
  }

  template <typename T>
  std::span<const T> section(size_t i) const {
    const IndexSection& section = header_.sections[i];
    return {reinterpret_cast<const T*>(bytes_.data() + section.offset), section.bytes / sizeof(T)};
  }

 private:
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(ErrorCode::corrupt, "`" + path_ + "` " + what);
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  IndexHeader header_{};
};

}  // namespace

VectorIndex VectorIndex::open(const std::string& path, bool verify) {
  if constexpr (std::endian::native != std::endian::little)
    throw Error(ErrorCode::unsupported, "index files are read on little-endian machines only");
  MappedFile file(path);
  Reader reader(path, file.bytes());
  reader.read_header();
  const VectorIndexOptions options = reader.options();
  auto index = std::make_unique<VectorIndexImpl>(options, reader.table());
  // No product here can wrap: at most 2^31 vectors of at most 2^18 bytes.
  const uint64_t count = uint64_t(reader.header().count), blocks = uint64_t(blocks_of(reader.header().count));
  const uint64_t slots = blocks * kBlockVectors * sizeof(float);
  const bool has_mean = reader.header().has_mean != 0;
  reader.check_sections({blocks * index->code_bytes(), slots, index->has_lengths() ? slots : 0, has_mean ? slots : 0,
                         count * sizeof(int64_t), count * index->stored_bytes(),
                         has_mean ? uint64_t(options.dim) * sizeof(float) : 0});
  if (verify) reader.verify();

  index->count = reader.header().count;
  index->next_id = reader.header().next_id;
  index->codes.map(reader.section<uint8_t>(0));
  index->scales.map(reader.section<float>(1));
  index->lengths.map(reader.section<float>(2));
  index->along.map(reader.section<float>(3));
  index->ids.map(reader.section<int64_t>(4));
  index->stored.map(reader.section<uint8_t>(5));
  const std::span<const float> mean = reader.section<float>(6);
  index->mean.assign(mean.begin(), mean.end());
  index->file = std::move(file);  // moving keeps the mapping where it is
  return VectorIndex(std::move(index));
}

}  // namespace kvasir
