// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The container alone. Sequences in it: tests/attention/snapshot_test.cpp.
#include "cache/snapshot_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kvasir/error.h"
#include "tests/base/temporary_folder.h"

namespace kvasir {
namespace {

constexpr std::array<std::string_view, 1> kKnown = {"something"};

// Headers of every length around the steps of 4,096, where the room that is left for them isn't all used.
TEST(SnapshotFile, AnyNumberOfSectionsOfAnySize) {
  const test::TemporaryFolder folder;
  std::vector<std::byte> bytes(20000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 31);
  for (size_t count = 0; count <= 260; ++count) {
    SnapshotWriter writer;
    writer.need("something");
    for (size_t i = 0; i < count; ++i) {
      const size_t size = i * 7919 % 9000;
      const std::span<const std::byte> whole = std::span(bytes).subspan(i, size);
      writer.add("section " + std::to_string(i), {whole.first(size / 3), {}, whole.subspan(size / 3)});
    }
    const uint64_t size = writer.write(folder.file("x"), {{"count", count}});
    ASSERT_EQ(size, std::filesystem::file_size(folder.file("x")));
    const SnapshotFile file(folder.file("x"), kKnown);
    EXPECT_EQ(file.content().at("count"), count);
    for (size_t i = 0; i < count; ++i) {
      const auto section = file.section("section " + std::to_string(i));
      ASSERT_TRUE(std::ranges::equal(section, std::span(bytes).subspan(i, i * 7919 % 9000)));
      ASSERT_EQ((section.data() - file.file()->bytes().data()) % ptrdiff_t(kSnapshotAlignment), 0);
    }
    EXPECT_THROW(file.section("another"), Error);
  }
}

TEST(SnapshotFile, AFailedWriteLeavesTheOldOne) {
  const test::TemporaryFolder folder;
  SnapshotWriter writer;
  EXPECT_THROW(writer.write(folder.file("none/x"), {}), Error);
  writer.write(folder.file("x"), {{"age", "old"}});
  std::filesystem::permissions(folder.file("x"), std::filesystem::perms::owner_read);
  writer.write(folder.file("x"), {{"age", "new"}});  // replaced, not changed
  EXPECT_EQ(SnapshotFile(folder.file("x"), kKnown).content().at("age"), "new");
}

}  // namespace
}  // namespace kvasir
