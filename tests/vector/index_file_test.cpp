// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/index_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/checksum.h"
#include "kvasir/vector.h"
#include "tests/vector/samples.h"

namespace kvasir {
namespace {

using vector_test::Folder;
using vector_test::normal_vectors;
using vector_test::read_bytes;
using vector_test::refusal;
using vector_test::write_bytes;

constexpr int kDim = 40;

VectorIndex sample(VectorMetric metric = VectorMetric::cosine, RerankStore rerank = RerankStore::f16, int bits = 3,
                   VectorCode code = VectorCode::scalar) {
  VectorIndex index(VectorIndexOptions{kDim, bits, code, metric, rerank, 9, true});
  std::vector<float> vectors = normal_vectors(300, kDim, 1);
  for (float& value : vectors) value += 1;  // a mean worth subtracting
  index.add(vectors);
  return index;
}

class IndexFile : public testing::Test {
 protected:
  std::string path() const { return folder_.file("x.kvx"); }
  ErrorCode code_of(const std::string& bytes) {
    write_bytes(path(), bytes);
    const auto [code, sentence] = refusal([&] { VectorIndex::open(path()); });
    EXPECT_NE(sentence.find("x.kvx"), std::string::npos) << sentence;
    return code;
  }
  size_t files() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path())) ++count;
    return count;
  }
  Folder folder_;
};

// The header with what `change` does to it, and checksums as if it had been written that way.
template <typename Change>
std::string with_header(std::string bytes, Change change) {
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header);
  header.checksum = checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(IndexHeader, checksum)));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST_F(IndexFile, ComesBackWhole) {
  const std::vector<float> queries = normal_vectors(20, kDim, 2);
  for (const VectorMetric metric : {VectorMetric::inner_product, VectorMetric::cosine, VectorMetric::l2})
    for (const RerankStore rerank : {RerankStore::none, RerankStore::f16, RerankStore::original})
      for (int kind = 1; kind <= 6; ++kind) {  // 1 to 4 bits, and the two trellises
        const int bits = kind <= 4 ? kind : 2 * (kind - 4);
        const VectorIndex index = sample(metric, rerank, bits, kind <= 4 ? VectorCode::scalar : VectorCode::trellis);
        index.save(path());
        for (const bool verify : {true, false}) {
          const VectorIndex back = VectorIndex::open(path(), verify);
          EXPECT_EQ(back.size(), index.size());
          EXPECT_EQ(back.ids(), index.ids());
          EXPECT_EQ(back.options().bits, bits);
          EXPECT_EQ(back.options().code, index.options().code);
          EXPECT_EQ(back.options().seed, 9u);
          EXPECT_EQ(back.options().metric, metric);
          EXPECT_EQ(back.options().rerank, rerank);
          EXPECT_EQ(back.decode(299), index.decode(299));
          EXPECT_EQ(back.search(queries, 10), index.search(queries, 10));
          if (rerank != RerankStore::none) {
            EXPECT_EQ(back.search(queries, 10, {50, 1}), index.search(queries, 10, {50, 1}));
          }
        }
        const VectorIndexSize size = index.bytes();
        EXPECT_GE(read_bytes(path()).size(), size.total());
        EXPECT_LE(read_bytes(path()).size(), size.total() + sizeof(IndexHeader) + 7 * 64 + 32 * (20 + 12) + kDim * 4);
      }
  EXPECT_EQ(files(), 1u) << "temporary files stayed";
}

TEST_F(IndexFile, SameContentIsSameBytes) {
  sample().save(path());
  VectorIndex::open(path()).save(folder_.file("again.kvx"));
  EXPECT_EQ(read_bytes(path()), read_bytes(folder_.file("again.kvx")));
}

TEST_F(IndexFile, AMappedIndexCanBeChangedAndSavedOverItself) {
  const std::vector<float> more = normal_vectors(70, kDim, 3), queries = normal_vectors(5, kDim, 2);
  VectorIndex memory = sample();
  memory.save(path());
  VectorIndex mapped = VectorIndex::open(path());
  for (VectorIndex* index : {&memory, &mapped}) {
    index->remove(std::vector<int64_t>{5, 17, 299});
    index->add(more);
  }
  EXPECT_EQ(mapped.search(queries, 400), memory.search(queries, 400));
  mapped.save(path());
  EXPECT_EQ(mapped.search(queries, 400), memory.search(queries, 400));
  EXPECT_EQ(VectorIndex::open(path()).search(queries, 400), memory.search(queries, 400));
}

TEST_F(IndexFile, EmptyIndex) {
  VectorIndex(VectorIndexOptions{.dim = 7}).save(path());
  VectorIndex back = VectorIndex::open(path());
  EXPECT_EQ(back.size(), 0);
  EXPECT_TRUE(back.search(std::vector<float>(7, 1.0f), 3)[0].empty());
  back.add(std::vector<float>(14, 1.0f));
  EXPECT_EQ(back.size(), 2);
}

TEST_F(IndexFile, TruncatedAnywhere) {
  sample().save(path());
  const std::string whole = read_bytes(path());
  for (size_t length = 0; length < whole.size(); length += length < 500 ? 1 : 997)
    ASSERT_EQ(code_of(whole.substr(0, length)), ErrorCode::corrupt) << length;
  EXPECT_EQ(code_of(whole.substr(0, whole.size() - 1)), ErrorCode::corrupt);
  EXPECT_EQ(code_of(whole + "x"), ErrorCode::corrupt);
}

TEST_F(IndexFile, FlippedBits) {
  sample().save(path());
  const std::string whole = read_bytes(path());
  IndexHeader header;
  std::memcpy(&header, whole.data(), sizeof header);
  std::vector<size_t> places;
  for (size_t i = 0; i < sizeof header; ++i) places.push_back(i);
  for (const IndexSection& section : header.sections)
    for (const uint64_t place : {uint64_t{0}, section.bytes / 2, section.bytes - 1})
      places.push_back(section.offset + place);
  for (const size_t place : places) {
    std::string damaged = whole;
    damaged[place] = char(damaged[place] ^ (1 << (place % 8)));
    const bool in_version = place >= offsetof(IndexHeader, version) && place < offsetof(IndexHeader, header_bytes);
    ASSERT_EQ(code_of(damaged), in_version ? ErrorCode::unsupported : ErrorCode::corrupt) << place;
  }
}

TEST_F(IndexFile, OtherVersionsAndOtherFiles) {
  sample().save(path());
  const std::string whole = read_bytes(path());
  EXPECT_EQ(code_of(with_header(whole, [](IndexHeader& h) { h.version = 2; })), ErrorCode::unsupported);
  EXPECT_EQ(code_of("GGUF and something else, long enough to be a header" + std::string(500, 'x')), ErrorCode::corrupt);
  EXPECT_EQ(code_of(""), ErrorCode::corrupt);
  EXPECT_EQ(refusal([&] { VectorIndex::open(folder_.file("absent.kvx")); }).code, ErrorCode::not_found);
  EXPECT_EQ(refusal([&] { VectorIndex::open(folder_.path().string()); }).code, ErrorCode::not_found);
}

// Headers that lie with a valid checksum: a wrong program wrote them, or an attacker.
TEST_F(IndexFile, NumbersThatNoIndexHas) {
  sample().save(path());
  const std::string whole = read_bytes(path());
  const auto expect_corrupt = [&](auto change) { EXPECT_EQ(code_of(with_header(whole, change)), ErrorCode::corrupt); };
  expect_corrupt([](IndexHeader& h) { h.count = int64_t{1} << 62; });
  expect_corrupt([](IndexHeader& h) { h.count = int64_t{1} << 31; });
  expect_corrupt([](IndexHeader& h) { h.count = -1; });
  expect_corrupt([](IndexHeader& h) { h.count = 301; });
  expect_corrupt([](IndexHeader& h) { h.count = 500; });
  expect_corrupt([](IndexHeader& h) { h.dim = 0; });
  expect_corrupt([](IndexHeader& h) { h.dim = 0xffffffffu; });
  expect_corrupt([](IndexHeader& h) { h.dim = 48; });
  expect_corrupt([](IndexHeader& h) { h.channels = 64; });
  expect_corrupt([](IndexHeader& h) { h.bits = 0; });
  expect_corrupt([](IndexHeader& h) { h.bits = 4; });
  expect_corrupt([](IndexHeader& h) { h.bits = 77; });
  expect_corrupt([](IndexHeader& h) { h.metric = 3; });
  expect_corrupt([](IndexHeader& h) { h.rerank = 9; });
  expect_corrupt([](IndexHeader& h) { h.code = 1; });
  expect_corrupt([](IndexHeader& h) { h.code = 2; });
  expect_corrupt([](IndexHeader& h) { h.has_mean = 0; });
  expect_corrupt([](IndexHeader& h) { h.step = -1.0f; });
  expect_corrupt([](IndexHeader& h) { h.offset = 1 << 30; });
  expect_corrupt([](IndexHeader& h) { h.level[1] = h.level[0]; });
  expect_corrupt([](IndexHeader& h) { h.sections[0].offset = uint64_t(-64); });
  expect_corrupt([](IndexHeader& h) { h.sections[4].offset += 64; });
  expect_corrupt([](IndexHeader& h) { h.sections[5].bytes = uint64_t(1) << 63; });
}

TEST_F(IndexFile, AFailedSaveLeavesTheOldFile) {
  sample().save(path());
  const std::string before = read_bytes(path());
  EXPECT_EQ(refusal([&] { sample().save(folder_.file("no/such/folder.kvx")); }).code, ErrorCode::io);
  std::filesystem::create_directory(folder_.file("taken"));
  EXPECT_EQ(refusal([&] { sample().save(folder_.file("taken")); }).code, ErrorCode::io);
  EXPECT_EQ(read_bytes(path()), before);
  EXPECT_EQ(files(), 2u) << "temporary files stayed";
}

}  // namespace
}  // namespace kvasir
