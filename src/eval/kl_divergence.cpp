// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/kl_divergence.h"

#include <algorithm>

#include "base/parallel.h"

namespace kvasir {

int lockstep_micro_batch(int vocab_size, int wanted) {
  constexpr int64_t kMostBytes = 512ll << 20;
  const int64_t row = 2 * int64_t(sizeof(float)) * vocab_size;
  return int(std::clamp<int64_t>(kMostBytes / row, 1, wanted));
}

void score_chunk(LogitSource& base, LogitSource& test, std::span<const int32_t> chunk, int vocab_size, int micro_batch,
                 int threads, const std::function<void(int64_t)>& progress, std::vector<LogitDivergence>& out) {
  const size_t length = chunk.size(), scored = length / 2;
  std::vector<float> base_logits, test_logits;
  base.restart();
  test.restart();
  for (size_t first = 0; first < length;) {
    const bool want = first >= scored;
    const size_t end = std::min({first + size_t(micro_batch), want ? length : scored});
    const std::span<const int32_t> tokens = chunk.subspan(first, end - first);
    base.append(tokens, want, base_logits);
    test.append(tokens, want, test_logits);
    if (want) {
      const size_t rows = std::min(end, length - 1) - first;  // nothing follows the last token
      const size_t start = out.size();
      out.resize(start + rows);
      parallel_for(int(rows), threads, [&](int row, int) {
        const size_t offset = size_t(row) * size_t(vocab_size);
        out[start + size_t(row)] =
            compare_logits({base_logits.data() + offset, size_t(vocab_size)},
                           {test_logits.data() + offset, size_t(vocab_size)}, chunk[first + size_t(row) + 1]);
      });
    }
    first = end;
    if (progress) progress(int64_t(end));
  }
}

}  // namespace kvasir
