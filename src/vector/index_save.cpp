// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <span>

#include "base/checksum.h"
#include "base/replaced_file.h"
#include "kvasir/error.h"
#include "vector/index_file.h"
#include "vector/index_impl.h"

namespace kvasir {

void VectorIndex::save(const std::string& path) const {
  if constexpr (std::endian::native != std::endian::little)
    throw Error(ErrorCode::unsupported, "index files are written on little-endian machines only");
  const VectorIndexImpl& index = *impl_;
  const CodeTable& table = index.encoder.table();
  const std::array<std::span<const std::byte>, kIndexSections> sections = {
      std::as_bytes(index.codes.get()),    std::as_bytes(index.scales.get()), std::as_bytes(index.lengths.get()),
      std::as_bytes(index.along.get()),    std::as_bytes(index.ids.get()),    std::as_bytes(index.stored.get()),
      std::as_bytes(std::span(index.mean))};

  IndexHeader header{};
  header.magic = kIndexMagic;
  header.version = kIndexVersion;
  header.header_bytes = sizeof header;
  header.dim = uint32_t(index.options.dim);
  header.channels = uint32_t(index.encoder.channels());
  header.bits = uint32_t(table.bits);
  header.metric = uint8_t(index.options.metric);
  header.rerank = uint8_t(index.options.rerank);
  header.code = uint8_t(index.options.code);
  header.center = index.options.center;
  header.has_mean = !index.mean.empty();
  header.seed = index.options.seed;
  header.count = index.count;
  header.next_id = index.next_id;
  header.step = table.step;
  header.offset = table.offset;
  header.level = table.level;
  uint64_t end = sizeof header;
  const auto aligned = [](uint64_t bytes) {
    return (bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
  };
  for (size_t i = 0; i < sections.size(); ++i) {
    header.sections[i] = {end, sections[i].size(), checksum(sections[i])};
    end = aligned(end + sections[i].size());
  }
  header.checksum = checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(IndexHeader, checksum)));

  ReplacedFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  constexpr std::array<std::byte, kSectionAlignment> kZeros{};
  for (const std::span<const std::byte> section : sections) {
    file.write(section);
    file.write(std::span(kZeros).first(size_t(aligned(section.size()) - section.size())));
  }
  file.commit();
}

}  // namespace kvasir
