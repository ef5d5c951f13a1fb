// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/density.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kSteps = 1 << 14;
constexpr double kFar = 12;  // the normal density has fallen to e^-72 there

Moments plus(const Moments& a, const Moments& b) {
  return {a.m0 + b.m0, a.m1 + b.m1, a.m2 + b.m2};
}

}  // namespace

Density Density::normal() {
  return Density(0, kFar);
}

Density Density::sphere(int dim) {
  if (dim < 4) throw Error(ErrorCode::internal, "no density for " + std::to_string(dim) + " channels");
  return Density(dim, std::min(std::sqrt(double(dim)), kFar));
}

Density::Density(int dim, double radius) : dim_(dim), radius_(radius), step_(radius / kSteps) {
  table_.push_back({0, 0, 0});
  for (int i = 0; i < kSteps; ++i) table_.push_back(plus(table_.back(), span(i * step_, (i + 1) * step_)));
}

double Density::weight(double u) const {
  if (dim_ == 0) return std::exp(-0.5 * u * u);
  const double rest = 1 - u * u / dim_;
  return rest <= 0 ? 0 : std::pow(rest, 0.5 * (dim_ - 3));
}

Moments Density::span(double a, double b) const {
  const double middle = (a + b) / 2, part = (b - a) / 6;
  const double at_a = part * weight(a), at_middle = 4 * part * weight(middle), at_b = part * weight(b);
  return {at_a + at_middle + at_b, a * at_a + middle * at_middle + b * at_b,
          a * a * at_a + middle * middle * at_middle + b * b * at_b};
}

Moments Density::from_zero(double u) const {
  u = std::min(u, radius_);
  const size_t i = std::min(size_t(u / step_), size_t(kSteps - 1));
  return plus(table_[i], span(double(i) * step_, u));
}

Moments Density::between(double a, double b) const {
  const Moments high = from_zero(std::abs(b)), low = from_zero(std::abs(a));
  // From zero, the integrals of 1 and x^2 are odd in the end of the interval, that of x is even.
  const double to = b < 0 ? -1 : 1, from = a < 0 ? -1 : 1, mass = 2 * table_.back().m0;
  return {(to * high.m0 - from * low.m0) / mass, (high.m1 - low.m1) / mass, (to * high.m2 - from * low.m2) / mass};
}

Moments Density::cell(const std::vector<double>& levels, size_t i) const {
  const double a = i == 0 ? -radius_ : 0.5 * (levels[i - 1] + levels[i]);
  const double b = i + 1 == levels.size() ? radius_ : 0.5 * (levels[i] + levels[i + 1]);
  return between(a, b);
}

}  // namespace kvasir
