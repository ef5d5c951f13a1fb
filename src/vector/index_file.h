// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The file of an index: a header of 640 bytes, then seven sections, each at a multiple of 64 bytes with zeros in
// between, so that a mapped file is used as it lies. Numbers are in the order of a little-endian machine; others refuse
// it. Sections, in this order: codes, scales, lengths, products with the mean, ids, stored vectors, mean; those that an
// index hasn't are empty.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvasir {

inline constexpr std::array<char, 8> kIndexMagic = {'K', 'V', 'A', 'S', 'I', 'R', 'V', 'X'};
inline constexpr uint32_t kIndexVersion = 1;
inline constexpr size_t kSectionAlignment = 64;
inline constexpr size_t kIndexSections = 7;

struct IndexSection {
  uint64_t offset, bytes, checksum;  // XXH3-64 of the bytes
};

struct IndexHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t dim, channels, bits;
  uint8_t metric, rerank, center, has_mean, code;
  uint64_t seed;
  int64_t count, next_id;
  float step;  // of the levels: vector/code_table.h
  int32_t offset;
  std::array<uint8_t, 256> level;
  std::array<IndexSection, kIndexSections> sections;
  std::array<uint8_t, 136> reserved;  // zero
  uint64_t checksum;                  // XXH3-64 of all the bytes before it
};
static_assert(sizeof(IndexHeader) == 640 && std::is_trivially_copyable_v<IndexHeader>);
static_assert(offsetof(IndexHeader, checksum) == 632);

}  // namespace kvasir
