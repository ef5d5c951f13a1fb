// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir tune`: codec and bits by layer and side, for a target of memory or of quality. Each candidate is measured in
// one side of one group of layers with everything else in 16 bits, the frontier of eval/tune_frontier.h is made of the
// sums, and the point that meets the target is measured as a whole, beside the candidates in all layers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "eval/divergence_summary.h"
#include "eval/tune_frontier.h"
#include "eval/tune_units.h"
#include "kvasir/engine.h"

namespace kvasir {

struct TuneOptions {
  std::shared_ptr<Model> model;
  CacheOptions cache;                   // windows, calibration, protection; its codecs play no part
  std::vector<std::string> candidates;  // empty: the default ones, of those that the model's heads can take
  int groups = 0;                       // 0: six, or as many as there are layers
  std::optional<double> bits, kld;      // the target: one of them
  std::string text, text_name;
  int64_t context = 1024;
  int chunks = 1;  // windows of `context` tokens; 0: all
  int micro_batch = 512;
  int threads = 2;

  std::function<void(const std::string&)> note;                                        // may be empty
  std::function<void(const std::string& what, int64_t done, int64_t total)> progress;  // may be empty
};

// A cache that was measured as a whole.
struct TunedCache {
  std::string name;  // the candidate; empty for the chosen point
  double bits = 0;
  MeanError kld;
};

struct TuneResult {
  std::vector<TuneUnit> units;
  std::vector<std::string> candidates;
  std::vector<std::vector<TuneCell>> table;  // [unit][candidate]
  std::vector<FrontierPoint> frontier;
  size_t chosen = 0;  // in `frontier`
  TunedCache measured;
  std::string fitted_by;  // FittedCodecs::description of what the candidates were fitted by; empty if none was
  std::vector<TunedCache> uniform;  // one candidate in all layers, of no more bits than the chosen point

  std::vector<std::string> names(const FrontierPoint& point) const;  // a codec for each unit
  const TunedCache* best_uniform() const;                            // null where there is none
};

// Throws Error invalid_argument for a target that can't be reached, with the range that can, before anything is
// measured where the bits alone tell; and for a text that is too short.
TuneResult run_tune(const TuneOptions& options);

// The file that --kv @FILE reads (cache/tuned_file.h), and the object that --json prints.
nlohmann::ordered_json tune_json(const TuneOptions& options, const TuneResult& result);

}  // namespace kvasir
