// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What a calibration fits to one side of one KV head: a map, y = T (x - mu), that need not be orthogonal. Queries go
// through T^-T, so that q.(x - mu) = (T^-T q).y, and attention works in the mapped basis whatever T is.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/turning_mean.h"
#include "kvasir/codec.h"
#include "transform/page_columns.h"

namespace kvasir {

struct FittedMap {
  int dim = 0, mapped_dim = 0;
  std::vector<float> rows;  // T [mapped_dim, dim]
  std::vector<float> dual;  // T^-T [mapped_dim, dim]; of a T that drops channels, the transpose of its right inverse
  std::vector<float> mean;  // mu [dim], or empty
  // Share of a vector's mapped channels that are left as they are; the largest magnitudes above it are clipped to the
  // magnitude at that rank (OSCAR, arXiv 2605.17757). 0: none are.
  float clip = 0;

  void forward(const float* x, float* y) const;                              // y = T (x - mu)
  void query(const float* q, float* y) const;                                // y = T^-T q
  void inverse(const float* y, float* x) const;                              // x = T^-1 y, without mu
  void forward(const PageColumns& columns, const float* x, float* y) const;  // of 64 in columns, not in place
  // The clipped magnitude is the so manieth of the largest; 0: nothing is clipped.
  int clip_rank() const;
  // Clips y [mapped_dim] in place: the definition, which TokenFits::clip does for 64 at once.
  void clip_outliers(float* y) const;
};
using FittedMaps = std::vector<FittedMap>;  // one per KV head

// One side of one layer.
struct FittedCodec {
  Codec codec;
  std::shared_ptr<const FittedMaps> maps;
  std::shared_ptr<const TurningMean> turning;  // of keys, which maps see without it; or null
};

// Codecs fitted to one model (calibrate/codec_fits.h makes them from a calibration).
class FittedCodecs {
 public:
  virtual ~FittedCodecs() = default;
  // Throws Error: invalid_argument, unsupported (the calibration doesn't hold what the codec needs; the message says
  // what to do).
  virtual FittedCodec fit(std::string_view name, Side side, int layer) const = 0;
  // Layers that there are fits for.
  virtual int layers() const = 0;
  // One line for the effective configuration: what the fits come from.
  virtual std::string description() const = 0;
};

}  // namespace kvasir
