// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the codecs that are fitted to a model come from: the file of --calibration, or the one that is kept for the
// model in the cache folder; for oscar2 also the files of --rotations, with or without a calibration.
#pragma once

#include <memory>
#include <string>

#include "calibrate/codec_fits.h"
#include "kvasir/engine.h"

namespace kvasir {

bool names_fitted_codec(const CacheOptions& options);

// The options with `fitted` set if a codec needs it, for a loaded model or a GGUF that is only looked at.
// Throws Error: not_found (no calibration: the message says how to make one), invalid_argument (one of another model,
// or a tuned file of another model), corrupt, and what read_given_rotations throws (host/rotation_files.h).
CacheOptions with_fitted_codecs(CacheOptions options, const Model& model);
CacheOptions with_fitted_codecs(CacheOptions options, const std::string& model_path);

// Loads a calibration and checks that it was made with this model; the same file is read once.
std::shared_ptr<const CodecFits> calibration_fits(const std::string& file, const std::string& fingerprint);

// KVASIR_CACHE_DIR/calibrations/<fingerprint>.safetensors, whether it is there or not.
std::string kept_calibration_path(const std::string& fingerprint);
// The same; empty where there is no folder to keep anything in.
std::string kept_calibration(const std::string& fingerprint);

}  // namespace kvasir
