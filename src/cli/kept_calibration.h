// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Calibrations with a progress bar, written to where they are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/cache_flags.h"
#include "host/calibration_run.h"

namespace kvasir::cli {

// Reads `text` and writes the calibration to `out`; a run that was stopped goes on.
Calibration calibrate_on(const std::shared_ptr<Model>& model, const std::string& text, const std::string& text_name,
                         CalibrationOptions options, const std::string& out);
// The same on texts that the model writes first.
Calibration calibrate_on_own_text(const std::shared_ptr<Model>& model, CalibrationOptions options, uint64_t seed,
                                  const std::string& out);

// Where --kv is auto and the model has no calibration yet, makes one and keeps it: from 8,192 tokens, or the windows of
// 512 that were begun within a minute. Nothing happens with --no-calibration or where a calibration is there; if it
// can't be made or kept, the reason is noted and `auto` stays what it is without.
void calibrate_on_first_use(const std::shared_ptr<Model>& model, const CacheFlags& flags, const CacheOptions& options,
                            int threads);

}  // namespace kvasir::cli
