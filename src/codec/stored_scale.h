// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The scale that is stored for a span of values y whose levels are c.
#pragma once

#include <cmath>

#include "kvasir/codec.h"

namespace kvasir {

struct SpanSums {
  double energy = 0;            // <y, y>
  double cross = 0, power = 0;  // <c, y>, <c, c>
};

inline double fitted_scale(ScaleFit fit, const SpanSums& sums, int count) {
  switch (fit) {
    case ScaleFit::unbiased: return sums.energy / sums.cross;
    case ScaleFit::least_squares: return sums.cross / sums.power;
    case ScaleFit::matched: return std::sqrt(sums.energy / sums.power);
    default: return std::sqrt(sums.energy / count);
  }
}

}  // namespace kvasir
