// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/micro_batch.h"

#include <algorithm>

namespace kvasir {

std::vector<MicroBatch> cut_micro_batches(std::span<const EngineSpan> spans, int tokens, int sequences) {
  std::vector<MicroBatch> batches;
  int room = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const int total = int(spans[i].tokens.size());
    for (int first = 0; first < total;) {
      if (room == 0 || int(batches.back().size()) == sequences) {
        batches.emplace_back();
        room = tokens;
      }
      const int count = std::min(room, total - first);
      batches.back().push_back({int(i), first, count});
      first += count;
      room -= count;
    }
  }
  return batches;
}

}  // namespace kvasir
