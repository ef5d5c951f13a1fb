// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/spectral_fit.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "calibrate/bit_classes.h"
#include "calibrate/covariance.h"
#include "kvasir/error.h"
#include "transform/rotation.h"

namespace kvasir {
namespace {

constexpr double kQueryRidge = 1e-3, kDataRidge = 1e-5;  // of the mean variance: directions that a text didn't show

// T and T^-T by rows, in descending order of the variances that T x has.
struct Spectrum {
  Matrix rows, dual;
  std::vector<double> variance;
  std::vector<float> mean;
};

// (1 - share) a + share b.
Matrix blend(const Matrix& a, const Matrix& b, double share) {
  return (1 - share) * a + share * b;
}

Spectrum key_spectrum(const LayerMoments& layer, const HeadMoments& head, const SpectralOptions& options) {
  const Matrix data = with_ridge(
      blend(key_covariance(layer, head), attended_key_covariance(layer, head), options.attended_key), kDataRidge);
  const Matrix metric = with_ridge(
      blend(query_moment(layer, head), attended_query_moment(layer, head), options.attended_query), kQueryRidge);
  const Eigen::SelfAdjointEigenSolver<Matrix> of_metric(metric);
  const Vector root = of_metric.eigenvalues().cwiseMax(0).cwiseSqrt();
  const Matrix& basis = of_metric.eigenvectors();
  const Matrix s = basis * root.asDiagonal() * basis.transpose();
  const Matrix inverse = basis * root.cwiseInverse().asDiagonal() * basis.transpose();
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(s * data * s);
  Spectrum spectrum;
  const Matrix u = solver.eigenvectors().rowwise().reverse();
  spectrum.rows = u.transpose() * s;
  spectrum.dual = u.transpose() * inverse;
  for (int j = 0; j < layer.key_dim; ++j)
    spectrum.variance.push_back(std::max(0.0, solver.eigenvalues()[layer.key_dim - 1 - j]));
  if (head.key_mean.empty()) spectrum.mean = key_mean(head);
  return spectrum;
}

Spectrum value_spectrum(const LayerMoments& layer, const HeadMoments& head, const SpectralOptions& options) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(with_ridge(
      blend(value_moment(layer, head), attended_value_moment(layer, head), options.attended_value), kDataRidge));
  Spectrum spectrum;
  spectrum.rows = solver.eigenvectors().rowwise().reverse().transpose();
  spectrum.dual = spectrum.rows;
  for (int j = 0; j < layer.value_dim; ++j)
    spectrum.variance.push_back(std::max(0.0, solver.eigenvalues()[layer.value_dim - 1 - j]));
  return spectrum;
}

// The class's rows mixed by a rotation and brought to unit energy, so that its scales are near 1. One factor a class:
// dividing each channel by its own deviation would let the mixing spread a quiet channel's surprises over loud ones.
void write_class(const Spectrum& spectrum, const BitClass& part, FittedMap& map) {
  double energy = 0;
  for (int j = 0; j < part.count; ++j) energy += spectrum.variance[size_t(part.first + j)];
  const double unit = energy > 0 ? std::sqrt(energy / part.count) : 1.0;
  const Rotation& mix = Rotation::of(RotationKind::haar, part.count, SignedFwht::kDefaultSeed);
  std::vector<float> column(size_t(part.count)), mixed(size_t(part.count));
  const auto write = [&](const Matrix& from, double factor, std::vector<float>& to) {
    for (int c = 0; c < map.dim; ++c) {
      for (int j = 0; j < part.count; ++j) column[size_t(j)] = float(from(part.first + j, c) * factor);
      mix.forward(column.data(), mixed.data());
      for (int j = 0; j < part.count; ++j) to[size_t(part.first + j) * size_t(map.dim) + size_t(c)] = mixed[size_t(j)];
    }
  };
  write(spectrum.rows, 1 / unit, map.rows);
  write(spectrum.dual, unit, map.dual);
}

FittedMap write_map(const Spectrum& spectrum, const std::vector<BitClass>& classes) {
  FittedMap map;
  map.dim = int(spectrum.rows.cols());
  map.mapped_dim = classes.back().first + classes.back().count;
  map.mean = spectrum.mean;
  map.rows.resize(size_t(map.mapped_dim) * size_t(map.dim));
  map.dual.resize(map.rows.size());
  for (const BitClass& part : classes) write_class(spectrum, part, map);
  return map;
}

}  // namespace

int spectral_bytes(double bits, int dim) {
  return int(std::floor((bits + (dim <= 64 ? 0.5 : 0.3)) * dim / 8 + 1e-9));
}

FittedCodec fit_spectral(const LayerMoments& layer, Side side, const SpectralOptions& options) {
  const int dim = side == Side::key ? layer.key_dim : layer.value_dim;
  std::vector<Spectrum> spectra;
  std::vector<double> total(size_t(dim), 0.0);
  for (const HeadMoments& head : layer.heads) {
    spectra.push_back(side == Side::key ? key_spectrum(layer, head, options) : value_spectrum(layer, head, options));
    for (int j = 0; j < dim; ++j) total[size_t(j)] += spectra.back().variance[size_t(j)];
  }
  ClassBudget budget;
  budget.bytes = options.bytes > 0 ? options.bytes : spectral_bytes(options.bits, dim);
  budget.max_classes = options.max_classes;
  const std::vector<BitClass> classes = choose_classes(total, budget);

  FittedCodec fitted;
  fitted.codec.side = side;
  fitted.codec.dim = dim;
  fitted.codec.map = MapKind::fitted;
  fitted.codec.scale_span = ScaleSpan::token;
  fitted.codec.scale_fit = side == Side::key ? ScaleFit::unbiased : ScaleFit::least_squares;
  fitted.codec.scale_format = ScaleFormat::log8;
  for (const BitClass& part : classes) {
    const bool trellis = trellis_coded(part.bits, part.count);
    fitted.codec.segments.push_back(
        {part.first, part.count, part.bits, trellis ? QuantizerKind::trellis : QuantizerKind::lloyd_max});
  }
  auto maps = std::make_shared<FittedMaps>();
  for (const Spectrum& spectrum : spectra) maps->push_back(write_map(spectrum, classes));
  fitted.maps = std::move(maps);
  if (side == Side::key) fitted.turning = turning_mean(layer);
  return fitted;
}

}  // namespace kvasir
