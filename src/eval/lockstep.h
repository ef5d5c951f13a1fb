// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Many caches compared with one base over the same window: the base reads each micro-batch once for all of them. Same
// protocol as score_chunk (eval/kl_divergence.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/logit_divergence.h"
#include "eval/logit_source.h"

namespace kvasir {

struct LockstepRun {
  LogitSource* source = nullptr;
  std::vector<LogitDivergence> positions;  // the scored ones of this window
  double seconds = 0;                      // spent in `source`
  std::string
      failure;  // why this cache dropped out (a broken run, for example logits that are NaN); empty if it didn't
};

// Tokens that a micro-batch may have without the logits of `sources` caches (each holds one copy in its graph and one
// in its result) passing 2 GB.
int lockstep_micro_batch(int vocab_size, int wanted, int sources);

// Scores one window. Returns the seconds that the base took.
double score_in_lockstep(LogitSource& base, std::span<LockstepRun> runs, std::span<const int32_t> window,
                         int vocab_size, int micro_batch, int threads, const std::function<void(int64_t)>& progress);

}  // namespace kvasir
