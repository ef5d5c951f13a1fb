// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "kvasir/error.h"
#include "tests/base/temporary_folder.h"

namespace kvasir {
namespace {

using Kind = FileLock::Kind;

TEST(FileLock, SharedByMany) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("lock");
  {
    const FileLock one(path, Kind::shared);
    EXPECT_TRUE(FileLock::try_lock(path, Kind::shared));
    EXPECT_FALSE(FileLock::try_lock(path, Kind::exclusive));
  }
  auto alone = FileLock::try_lock(path, Kind::exclusive);
  ASSERT_TRUE(alone);
  const FileLock moved = std::move(*alone);
  EXPECT_FALSE(FileLock::try_lock(path, Kind::shared));
  EXPECT_THROW(FileLock(folder.file("none/lock"), Kind::shared), Error);
}

// Everyone removes the file when done; still no two have it at once.
TEST(FileLock, RemovedFilesLockNothing) {
  const test::TemporaryFolder folder;
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        FileLock lock(folder.file("lock"), Kind::exclusive);
        const int now = ++inside;
        if (now > most) most = now;
        std::this_thread::yield();
        --inside;
        lock.remove_file();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.file("lock")));
}

}  // namespace
}  // namespace kvasir
