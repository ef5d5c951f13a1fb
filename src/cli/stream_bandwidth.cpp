// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/stream_bandwidth.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "cli/paired_times.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr size_t kLeastBytes = size_t(256) << 20, kMostBytes = size_t(1) << 30;
constexpr int kPasses = 5;
constexpr int kPartsOfThread = 8;  // uneven threads balance

size_t buffer_bytes() {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1 where it isn't known
  return std::clamp(cache > 0 ? 4 * size_t(cache) : 0, kLeastBytes, kMostBytes);
}

}  // namespace

double stream_read_bandwidth(int threads) {
  const size_t parts = size_t(threads) * kPartsOfThread;
  const size_t words = buffer_bytes() / sizeof(uint64_t) / parts;
  std::vector<uint64_t> buffer(words * parts, 1), sums(parts);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double time = seconds([&] {
      parallel_for(int(parts), threads, [&](int part, int) {
        const auto begin = buffer.begin() + std::ptrdiff_t(size_t(part) * words);
        sums[size_t(part)] = std::accumulate(begin, begin + std::ptrdiff_t(words), uint64_t(0));
      });
    });
    best = std::max(best, double(buffer.size() * sizeof(uint64_t)) / time);
  }
  // Looked at, so that the sums are really made.
  if (std::accumulate(sums.begin(), sums.end(), uint64_t(0)) != buffer.size())
    throw Error(ErrorCode::internal, "the machine's memory doesn't hold what was written");
  return best;
}

}  // namespace kvasir::cli
