// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A calibration as the source of fitted codecs: what --kv oscar2 and --kv spectral3 are made from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "calibrate/calibration.h"
#include "codec/fitted_map.h"

namespace kvasir {

// Names and their options, each behind a colon:
//
//   oscar2                    rotation=none|h|u|uh|uhp, clip=SHARE|off, group=N, heads=shared|own,
//                             values=proxy|scores, mean=on|off
//   spectral2, 2.5, ... 4     classes=N (at most), scale=least-squares|unbiased|...
//
// as in "oscar2:heads=own:mean=on". Each fit is made once and kept.
class CodecFits : public FittedCodecs {
 public:
  explicit CodecFits(Calibration calibration);

  FittedCodec fit(std::string_view name, Side side, int layer) const override;
  int layers() const override { return int(calibration_.layers.size()); }
  std::string description() const override;
  const Calibration& calibration() const { return calibration_; }

 private:
  FittedCodec make(std::string_view name, Side side, int layer) const;

  const Calibration calibration_;
  mutable std::mutex mutex_;
  mutable std::map<std::tuple<std::string, Side, int>, FittedCodec> made_;
};

}  // namespace kvasir
