// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The exact squared error of a scalar codebook behind a random rotation, for the scales that a codec may store.
//
// Let y be a vector of d independent normal numbers, u = y / rms(y) and c the levels nearest to u. u is uniform on the
// sphere of radius sqrt(d) and independent of the norm, so the relative error of x^ = s rms(y) c depends on
//
//   A = <c, u> / d   and   P = <c, c> / d
//
// alone:
//
//   norm           s = 1      |y - x^|^2 / |y|^2 = 1 - 2 A + P      mean: the codebook's own error D
//   least squares  s = A / P                       1 - A^2 / P      about D (1 - D for A = P: the centroid condition)
//   unbiased       s = 1 / A                       P / A^2 - 1      about D / (1 - D)
//   matched        s = 1 / sqrt(P)                 2 - 2 A / sqrt(P)
//
// The means of A and P are integrals over one coordinate of the sphere, whose density is (1 - u^2/d)^((d-3)/2) / Z
// (Beta((d-1)/2, (d-1)/2) in (1 + u/sqrt(d))/2; the normal density only for d -> infinity, cf. arXiv 2504.19874,
// Lemma 1). The two ratios are expanded to second order around them. Sums over the sphere are sums of independent
// normal terms given sum g^2 = d, so with the moments of one coordinate
//
//   d Cov(A, P) = Cov(c u, c^2) - Cov(c u, u^2) Cov(c^2, u^2) / Var(u^2)        and alike for Var(A), Var(P).
//
// What is left out is of order 1/d^2, and the rounding of the stored scale to f16, 2^-24 relative in the square.
#pragma once

#include "kvasir/codec.h"
#include "quant/codebook.h"

namespace kvasir {

struct SphereTheory {
  double codebook_mse = 0;  // D: E (u - c)^2 on the sphere
  double mse = 0;           // with the stored scale
  // E <x, x^> / |x|^2 - 1: 0 for unbiased, -mse for least squares, -mse / 2 for matched, E A - 1 for norm.
  double bias = 0;
};

// fit: norm, matched, unbiased or least_squares. dim >= 4.
SphereTheory sphere_theory(const Codebook& codebook, ScaleFit fit, int dim);

// |r^ - r|^2 / |r|^2 where r^ is made of the signs of S r (arXiv 2504.19874, Alg. 2): the mean over S, which is also d
// times the variance of <q, r^> for a unit q that doesn't depend on them. Limits: pi/2 - 1 for an orthogonal S, pi/2
// for a Gaussian one.
double residual_sign_error(ProjectionKind projection, int dim);

}  // namespace kvasir
