// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Random linear maps by kind, size and seed: the rotation in front of a quantizer, and the projection whose signs QJL
// stores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transform/signed_fwht.h"

namespace kvasir {

enum class RotationKind : uint8_t {
  signed_fwht,  // d log d steps (transform/signed_fwht.h)
  haar,         // uniform over all rotations (TurboQuant, arXiv 2504.19874, Alg. 1): d^2 steps
  gaussian,     // independent N(0, 1/d) entries, not orthogonal (QJL, arXiv 2406.03482, scaled by 1/sqrt(d))
};

// y = R x. Everything is a pure function of (kind, dim, seed), on every machine.
class Rotation {
 public:
  // Throws Error unsupported where signed_fwht has no transform of that size.
  Rotation(RotationKind kind, int dim, uint64_t seed);
  // The shared instance, made on first use.
  static const Rotation& of(RotationKind kind, int dim, uint64_t seed);

  int dim() const { return dim_; }
  void forward(const float* x, float* y) const;  // y = R x; x and y are [dim] and may be the same
  // The same of 64 vectors, [dim][64] (transform/page_columns.h); x and y are not the same.
  void forward(const PageColumns& columns, const float* x, float* y) const;
  void transpose(const float* y, float* x) const;  // x = R^T y, which undoes `forward` unless R is gaussian

 private:
  int dim_;
  std::optional<SignedFwht> fast_;
  std::vector<float> rows_, columns_;  // R and R^T, [dim, dim], for the dense kinds
};

}  // namespace kvasir
