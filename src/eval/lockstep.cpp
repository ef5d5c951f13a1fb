// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/lockstep.h"

#include <algorithm>
#include <chrono>

#include "base/parallel.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

double timed_append(LogitSource& source, std::span<const int32_t> tokens, bool want, std::vector<float>& logits) {
  const auto start = std::chrono::steady_clock::now();
  source.append(tokens, want, logits);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int lockstep_micro_batch(int vocab_size, int wanted, int sources) {
  constexpr int64_t kMostBytes = 2048ll << 20;
  const int64_t row = 2 * int64_t(sources + 1) * int64_t(sizeof(float)) * vocab_size;
  return int(std::clamp<int64_t>(kMostBytes / row, 1, wanted));
}

double score_in_lockstep(LogitSource& base, std::span<LockstepRun> runs, std::span<const int32_t> window,
                         int vocab_size, int micro_batch, int threads, const std::function<void(int64_t)>& progress) {
  const size_t length = window.size(), scored = length / 2, width = size_t(vocab_size);
  std::vector<float> base_logits, logits;
  double base_seconds = 0;
  base.restart();
  for (LockstepRun& run : runs) {
    run.source->restart();
    run.positions.clear();
    run.seconds = 0;
    run.failure.clear();
  }
  for (size_t first = 0; first < length;) {
    const bool want = first >= scored;
    const size_t end = std::min(first + size_t(micro_batch), want ? length : scored);
    const std::span<const int32_t> tokens = window.subspan(first, end - first);
    const size_t rows = want ? std::min(end, length - 1) - first : 0;  // nothing follows the last token
    base_seconds += timed_append(base, tokens, want, base_logits);
    for (LockstepRun& run : runs) {
      if (!run.failure.empty()) continue;
      try {
        run.seconds += timed_append(*run.source, tokens, want, logits);
        const size_t start = run.positions.size();
        run.positions.resize(start + rows);
        parallel_for(int(rows), threads, [&](int row, int) {
          const size_t offset = size_t(row) * width;
          run.positions[start + size_t(row)] = compare_logits(
              {base_logits.data() + offset, width}, {logits.data() + offset, width}, window[first + size_t(row) + 1]);
        });
      } catch (const Error& error) {
        run.failure = error.what();  // the others go on
        run.positions.clear();
      }
    }
    first = end;
    if (progress) progress(int64_t(end));
  }
  return base_seconds;
}

}  // namespace kvasir
