// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `eval kld`: a text read twice, through a base cache and through the cache under test, after the protocol of
// llama-perplexity: windows of N tokens that don't overlap, each from an empty cache, the second half scored (the
// positions N/2 .. N-2, each with the token that follows). Both caches walk a window in lockstep, one micro-batch at a
// time, so no logits are written down: at 262,144 words of vocabulary a window of them would take 1 GB.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "eval/logit_divergence.h"
#include "eval/logit_source.h"

namespace kvasir {

// Tokens that a micro-batch may have without the two copies of its logits passing 512 MB.
int lockstep_micro_batch(int vocab_size, int wanted);

// Scores one window and appends its positions to `out`. `progress` gets the tokens done in this window.
void score_chunk(LogitSource& base, LogitSource& test, std::span<const int32_t> chunk, int vocab_size, int micro_batch,
                 int threads, const std::function<void(int64_t)>& progress, std::vector<LogitDivergence>& out);

}  // namespace kvasir
