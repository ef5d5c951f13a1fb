// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean divergence of many caches from one base, on the same windows of a text: a few caches at a time, so that what
// they hold stays bounded, and the base once for each few.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eval/divergence_summary.h"
#include "kvasir/engine.h"

namespace kvasir {

struct ManyKldsJob {
  std::shared_ptr<Model> model;
  std::vector<std::vector<int32_t>> windows;  // all of one length; see cut_chunks (eval/text_chunks.h)
  CacheOptions base;
  int micro_batch = 512;
  int threads = 2;
  std::function<void(int64_t done, int64_t total)> progress;  // tokens through caches; may be empty
};

struct ManyKldsResult {
  MeanError kld;
  std::string failure;  // why there is none; empty if there is
};

// In the order of `caches`.
std::vector<ManyKldsResult> measure_klds(const ManyKldsJob& job, std::span<const CacheOptions> caches);

}  // namespace kvasir
