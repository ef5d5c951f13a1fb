// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A calibration as the source of fitted codecs: what --kv oscar2 and --kv spectral3 are made from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "calibrate/calibration.h"
#include "calibrate/rotation_set.h"
#include "codec/fitted_map.h"

namespace kvasir {

// Rotations from files, for oscar2 in place of those that a calibration gives. Valid and of the model's shape.
struct GivenRotations {
  std::optional<RotationSet> key, value;
  std::string source;  // the files, in words
};

// Names and their options, each behind a colon:
//
//   oscar2                    rotation=none|h|u|uh|uhp, clip=SHARE|off, group=N, heads=shared|own,
//                             values=proxy|scores, mean=on|off
//   spectral2, 2.5, ... 4     classes=N (at most), bytes=N (of a token and head), scale= and quantizer= as turbo
//   codecs,
//                             weights=attention|none (what the fit is weighed by)
//
// as in "oscar2:heads=own:mean=on". Each fit is made once and kept. Around rotations from a file oscar2 has neither
// rotation= nor values= nor heads=.
class CodecFits : public FittedCodecs {
 public:
  explicit CodecFits(Calibration calibration);
  CodecFits(std::shared_ptr<const Calibration> calibration, GivenRotations rotations);
  // Without a calibration: oscar2 of the sides that rotations are given for, and nothing else.
  CodecFits(const Geometry& geometry, GivenRotations rotations);

  FittedCodec fit(std::string_view name, Side side, int layer) const override;
  int layers() const override { return int(calibration_->layers.size()); }
  std::string description() const override;
  // The sums are empty and `tokens` is 0 where there is none.
  const std::shared_ptr<const Calibration>& calibration() const { return calibration_; }

 private:
  FittedCodec make(std::string_view name, Side side, int layer) const;
  bool calibrated() const { return calibration_->tokens > 0; }

  const std::shared_ptr<const Calibration> calibration_;
  const GivenRotations rotations_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::string, Side, int>, FittedCodec> made_;
};

}  // namespace kvasir
