// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace kvasir {
namespace {

TEST(ParallelFor, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 3, 8})
    for (int count : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      parallel_for(count, threads, [&](int index, int worker) {
        EXPECT_LT(worker, threads);
        ++seen[size_t(index)];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
}

TEST(ParallelFor, RethrowsWhatATaskThrew) {
  for (int threads : {1, 2, 4})
    EXPECT_THROW(parallel_for(50, threads,
                              [](int index, int) {
                                if (index == 17) throw std::runtime_error("17");
                              }),
                 std::runtime_error);
}

}  // namespace
}  // namespace kvasir
