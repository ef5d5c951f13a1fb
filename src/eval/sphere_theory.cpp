// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/sphere_theory.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// Moments of one coordinate u and its level c under the density of the sphere.
struct CoordinateMoments {
  double u2, u4, cu, c2;              // E u^2 (= 1), E u^4, E c u, E c^2
  double cucu, cuc2, c4, cuu2, c2u2;  // E (cu)^2, E cu c^2, E c^4, E cu u^2, E c^2 u^2
};

CoordinateMoments integrate(const Codebook& book, int dim) {
  // Beyond 12 there is less than e^-70 of anything, and a step over all of a large sphere would be too coarse.
  const double radius = std::min(std::sqrt(double(dim)), 12.0), power = 0.5 * (dim - 3);
  CoordinateMoments m{};
  double mass = 0;
  for (int code = 0; code < book.levels(); ++code) {
    const double low = code == 0 ? -radius : std::max(-radius, double(book.edges[size_t(code - 1)]));
    const double high = code + 1 == book.levels() ? radius : std::min(radius, double(book.edges[size_t(code)]));
    if (low >= high) continue;
    // Simpson's rule inside the cell, where everything is smooth: its error is far below 1e-9 of the integral.
    constexpr int kSteps = 2000;
    const double step = (high - low) / kSteps, c = book.value(code);
    for (int i = 0; i <= kSteps; ++i) {
      const double u = low + i * step, rest = 1 - u * u / dim;
      if (rest <= 0) continue;
      const double weight = (i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2) * step / 3 * std::pow(rest, power);
      const double cu = c * u, u2 = u * u, c2 = c * c;
      mass += weight;
      m.u2 += weight * u2;
      m.u4 += weight * u2 * u2;
      m.cu += weight * cu;
      m.c2 += weight * c2;
      m.cucu += weight * cu * cu;
      m.cuc2 += weight * cu * c2;
      m.c4 += weight * c2 * c2;
      m.cuu2 += weight * cu * u2;
      m.c2u2 += weight * c2 * u2;
    }
  }
  for (double* moment : {&m.u2, &m.u4, &m.cu, &m.c2, &m.cucu, &m.cuc2, &m.c4, &m.cuu2, &m.c2u2}) *moment /= mass;
  return m;
}

}  // namespace

SphereTheory sphere_theory(const Codebook& codebook, ScaleFit fit, int dim) {
  if (dim < 4) throw Error(ErrorCode::internal, "no theory for vectors of " + std::to_string(dim) + " channels");
  const CoordinateMoments m = integrate(codebook, dim);
  const double a = m.cu, p = m.c2;
  const double var_u2 = m.u4 - m.u2 * m.u2;
  const double a_with_u2 = m.cuu2 - m.cu * m.u2, p_with_u2 = m.c2u2 - m.c2 * m.u2;
  const double vaa = (m.cucu - a * a - a_with_u2 * a_with_u2 / var_u2) / dim;
  const double vap = (m.cuc2 - a * p - a_with_u2 * p_with_u2 / var_u2) / dim;
  const double vpp = (m.c4 - p * p - p_with_u2 * p_with_u2 / var_u2) / dim;

  SphereTheory theory;
  theory.codebook_mse = 1 - 2 * a + p;
  switch (fit) {
    case ScaleFit::norm:
      theory.mse = theory.codebook_mse;
      theory.bias = a - 1;
      return theory;
    case ScaleFit::least_squares:
      theory.mse = 1 - (a * a / p + vaa / p - 2 * a * vap / (p * p) + a * a * vpp / (p * p * p));
      theory.bias = -theory.mse;
      return theory;
    case ScaleFit::matched:
      theory.mse = 2 - 2 * (a / std::sqrt(p) - vap / (2 * std::pow(p, 1.5)) + 3 * a * vpp / (8 * std::pow(p, 2.5)));
      theory.bias = -theory.mse / 2;
      return theory;
    case ScaleFit::unbiased:
      theory.mse = p / (a * a) - 1 + 3 * p * vaa / (a * a * a * a) - 2 * vap / (a * a * a);
      return theory;
    default: throw Error(ErrorCode::internal, "no theory for this scale");
  }
}

double residual_sign_error(ProjectionKind projection, int dim) {
  const double d = dim, pi = std::numbers::pi;
  if (projection == ProjectionKind::gaussian) {
    // r^ = sqrt(pi / 2 d) |r| S^T sign(S r), S of variance 1/d: along r a sum of d half-normal numbers, in each of the
    // d - 1 other directions a sum of d normal ones.
    const double along = d + d * (d - 1) * 2 / pi, across = d * (d - 1);
    return pi / (2 * d) * (along + across) / d - 1;
  }
  // S r / |r| is a random unit vector z: r^ has the length sqrt(d) / (d m), m = E |z_1|, and <r^, r> = |r|^2 on
  // average.
  const double m = std::exp(std::lgamma(d / 2) - std::lgamma((d + 1) / 2)) / std::sqrt(pi);
  return 1 / (d * m * m) - 1;
}

}  // namespace kvasir
