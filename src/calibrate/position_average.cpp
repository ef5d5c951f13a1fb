// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/position_average.h"

#include <cmath>
#include <complex>

namespace kvasir {
namespace {

using Complex = std::complex<double>;

// Mean of e^(i angle p) over p in [0, count): Dirichlet's kernel.
Complex mean_turn(double angle, int64_t count) {
  const double half = std::sin(angle / 2), n = double(count);
  if (std::abs(half) < 1e-12) return 1;
  return std::polar(std::sin(n * angle / 2) / (n * half), (n - 1) * angle / 2);
}

// A pair as one complex channel; a channel of no pair as one that doesn't turn and has no second part.
struct Unit {
  int a = 0, b = -1;
  double angle = 0;
};

std::vector<Unit> units_of(const Rotary& rotary, int dim) {
  std::vector<Unit> units;
  std::vector<bool> turns(size_t(dim), false);
  for (const RotaryPair& pair : rotary) {
    units.push_back({pair.a, pair.b, pair.angle});
    turns[size_t(pair.a)] = turns[size_t(pair.b)] = true;
  }
  for (int c = 0; c < dim; ++c)
    if (!turns[size_t(c)]) units.push_back({c, -1, 0});
  return units;
}

class PositionAverage {
 public:
  PositionAverage(const Rotary& rotary, int dim, int64_t positions) : dim_(dim), units_(units_of(rotary, dim)) {
    for (const Unit& u : units_) {
      alone_.push_back(mean_turn(u.angle, positions));
      for (const Unit& v : units_) {
        apart_.push_back(mean_turn(u.angle - v.angle, positions));
        together_.push_back(mean_turn(u.angle + v.angle, positions));
      }
    }
  }

  void of_vector(std::vector<double>& x) const {
    for (size_t u = 0; u < units_.size(); ++u) {
      const Unit& unit = units_[u];
      if (unit.b < 0) continue;
      const Complex z = Complex(x[size_t(unit.a)], x[size_t(unit.b)]) * alone_[u];
      x[size_t(unit.a)] = z.real();
      x[size_t(unit.b)] = z.imag();
    }
  }

  // Sums of x x^T as those of z_u conj(z_v), which turn by the difference of the angles, and z_u z_v, by their sum.
  void of_matrix(std::vector<double>& m) const {
    const std::vector<double> old = m;
    const auto from = [&](int row, int column) {
      return row < 0 || column < 0 ? 0.0 : old[size_t(row) * size_t(dim_) + size_t(column)];
    };
    const auto to = [&](int row, int column, double x) {
      if (row < 0 || column < 0) return;
      m[size_t(row) * size_t(dim_) + size_t(column)] = m[size_t(column) * size_t(dim_) + size_t(row)] = x;
    };
    for (size_t u = 0; u < units_.size(); ++u)
      for (size_t v = 0; v <= u; ++v) {
        const Unit &x = units_[u], &y = units_[v];
        const double aa = from(x.a, y.a), ab = from(x.a, y.b), ba = from(x.b, y.a), bb = from(x.b, y.b);
        const Complex apart = Complex(aa + bb, ba - ab) * apart_[u * units_.size() + v];
        const Complex together = Complex(aa - bb, ba + ab) * together_[u * units_.size() + v];
        to(x.a, y.a, (apart.real() + together.real()) / 2);
        to(x.b, y.b, (apart.real() - together.real()) / 2);
        to(x.b, y.a, (together.imag() + apart.imag()) / 2);
        to(x.a, y.b, (together.imag() - apart.imag()) / 2);
      }
  }

 private:
  int dim_;
  std::vector<Unit> units_;
  std::vector<Complex> alone_, apart_, together_;
};

}  // namespace

void average_over_positions(LayerMoments& moments, int64_t positions) {
  if (moments.rotary.empty()) return;
  const PositionAverage average(moments.rotary, moments.key_dim, positions);
  for (HeadMoments& head : moments.heads) {
    for (auto* sums : {&head.key_sum, &head.attended_key_sum}) average.of_vector(*sums);
    for (auto* sums : {&head.key, &head.attended_key, &head.query, &head.attended_query}) average.of_matrix(*sums);
  }
}

}  // namespace kvasir
