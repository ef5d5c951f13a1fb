// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The densities that codebooks are optimal for, by their moments over intervals.
#pragma once

#include <cstddef>
#include <vector>

namespace kvasir {

// Integrals of 1, x and x^2 times a density over an interval.
struct Moments {
  double m0, m1, m2;
};

// A symmetric density, tabulated: between table points Simpson's rule is exact to the last digits.
class Density {
 public:
  static Density normal();  // N(0, 1)
  // sqrt(d) times one coordinate of a random unit vector of d channels: (1 - u^2/d)^((d-3)/2) / Z on
  // [-sqrt(d), sqrt(d)] (TurboQuant, arXiv 2504.19874, Lemma 1); N(0, 1) for large d. Throws Error internal for d < 4.
  static Density sphere(int dim);

  double radius() const { return radius_; }  // nothing that matters lies outside [-radius, radius]
  Moments between(double a, double b) const;
  // Over the values that are nearest to levels[i]; levels ascend.
  Moments cell(const std::vector<double>& levels, size_t i) const;

 private:
  Density(int dim, double radius);
  double weight(double u) const;           // not normalised
  Moments span(double a, double b) const;  // Simpson's rule over a short span, not normalised
  Moments from_zero(double u) const;       // over (0, u), u >= 0, not normalised

  int dim_;  // 0: normal
  double radius_, step_;
  std::vector<Moments> table_;  // from_zero at multiples of step_
};

}  // namespace kvasir
