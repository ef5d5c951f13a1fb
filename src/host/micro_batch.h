// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How the tokens of several sequences are cut into micro-batches: in order, each as full as it gets.
#pragma once

#include <span>
#include <vector>

#include "kvasir/engine.h"

namespace kvasir {

// Tokens [first, first + count) of one EngineSpan, as part of a micro-batch.
struct BatchPiece {
  int span = 0;
  int first = 0;
  int count = 0;
};

using MicroBatch = std::vector<BatchPiece>;

// At most `tokens` tokens and `sequences` pieces in each micro-batch.
std::vector<MicroBatch> cut_micro_batches(std::span<const EngineSpan> spans, int tokens, int sequences);

}  // namespace kvasir
