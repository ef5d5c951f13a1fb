// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The run behind `kvasir calibrate`: a text goes through the model in windows, each with an empty cache, and the
// moments of every layer are summed.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/calibration.h"
#include "kvasir/engine.h"

namespace kvasir {

struct CalibrationOptions {
  int64_t tokens = 16384;  // at most; whole windows
  int window = 1024;
  // Sums are of windows that begin anywhere below so many positions; 0: in the context that the model was trained for.
  // Keys turn with their position, and directions that a calibration hasn't seen get no bits. Windows are read at
  // position 0 and their sums averaged over all beginnings (calibrate/position_average.h), or read at places spread
  // over the positions, where a model does something else with them than turning.
  int64_t positions = 0;
  int sink = 16, recent = 64;  // 16-bit windows, whose tokens do not count; a window's first never does
  double most_seconds = 0;     // stop after the window that passes it; 0: no limit
  int micro_batch = 512;
  int threads = 2;
  std::string checkpoint;  // where sums are kept after every window, so that a stopped run goes on; empty: nowhere
  std::string text_name;   // for the record
  std::function<void(int64_t done, int64_t total)> progress;  // tokens
};

// Throws Error invalid_argument for numbers that don't go together; run_calibration calls it too.
void check_calibration(const CalibrationOptions& options);

// Deterministic: the same sums wherever it was stopped and for any number of threads, with the same micro-batch and
// instruction set.
// Throws Error invalid_argument (a text shorter than a window), what Engine throws, io for the checkpoint.
Calibration run_calibration(const std::shared_ptr<Model>& model, const std::string& text,
                            const CalibrationOptions& options);
// The same over tokens in windows that are cut already, all of options.window tokens.
Calibration run_calibration(const std::shared_ptr<Model>& model, const std::vector<std::vector<int32_t>>& windows,
                            const CalibrationOptions& options);

}  // namespace kvasir
