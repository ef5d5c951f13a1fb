// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The kld cells of a suite: one window of one model for many methods, and the result of all windows so far.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "eval/suite_methods.h"
#include "kvasir/engine.h"

namespace kvasir {

struct KldWindow {
  std::shared_ptr<Model> model;
  SourceSpec base;
  std::vector<const SuiteMethod*> methods;
  std::span<const int32_t> tokens;
  int micro_batch = 512;
  int threads = 2;
  std::function<void(int64_t done)> progress;  // tokens; may be empty
};

// What one method did in the window: its positions and sizes as JSON, or why it can't.
struct KldWindowResult {
  const SuiteMethod* method = nullptr;
  nlohmann::ordered_json window;
  std::string failure;       // empty if `window` holds a result
  bool unsupported = false;  // the method can't hold this model, as opposed to having gone wrong
};

// The base reads the window once for all methods. In the order of `methods`.
std::vector<KldWindowResult> run_kld_window(const KldWindow& job);

// {"kld" {"mean", "se", "median", "p90", "p99", "p999", "max"}, "ppl", "ppl_se", "ppl_base", "ln_ppl_ratio" {...},
// "top1", "top1_se", "delta_p" {"mean", "rms"}, "bits_per_value", "bytes", "bytes_f16", "windows", "tokens",
// "prefill_tps", "prefill_tps_base", "codecs", "nonfinite"} over the windows, which must not be empty.
nlohmann::ordered_json kld_result(const std::vector<nlohmann::ordered_json>& windows);

}  // namespace kvasir
