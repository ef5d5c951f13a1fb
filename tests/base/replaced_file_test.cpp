// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/replaced_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/mapped_file.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = (std::filesystem::temp_directory_path() / "kvasir-files-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "x").string(); }
  std::string content() const {
    const MappedFile file(path());
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  size_t files() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }
  std::filesystem::path folder_;
};

TEST_F(Files, ReplacedOnlyByCommit) {
  {
    ReplacedFile file(path());
    file.write(bytes("old "));
    file.write(bytes("content"));
    file.commit();
  }
  EXPECT_EQ(content(), "old content");
  {
    ReplacedFile file(path());
    file.write(bytes("half of the new"));
    EXPECT_EQ(content(), "old content");
  }
  EXPECT_EQ(content(), "old content");
  EXPECT_EQ(files(), 1u);
  ReplacedFile file(path());
  file.write(bytes("new"));
  file.commit();
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(Files, WhatCantBeReadOrWritten) {
  EXPECT_THROW(MappedFile{path()}, Error);
  EXPECT_THROW(MappedFile{folder_.string()}, Error);
  EXPECT_THROW(ReplacedFile{(folder_ / "absent" / "x").string()}, Error);
  {
    ReplacedFile file(path());
    file.commit();
  }
  EXPECT_EQ(content(), "");
  MappedFile moved = MappedFile(path());
  EXPECT_TRUE(moved.bytes().empty());
}

// The published test vector of XXH3-64 for no input, and a change of one bit.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum({}), 0x2d06800538d394c2ull);
  EXPECT_NE(checksum(bytes("a")), checksum(bytes("b")));
}

}  // namespace
}  // namespace kvasir
