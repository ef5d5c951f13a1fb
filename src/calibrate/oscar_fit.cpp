// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/oscar_fit.h"

#include <Eigen/Eigenvalues>
#include <bit>
#include <cmath>
#include <string>

#include "calibrate/covariance.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// What an error of this side is weighed by.
Matrix objective(const LayerMoments& layer, const HeadMoments& head, Side side, OscarValues values) {
  if (side == Side::key) return query_moment(layer, head);
  return values == OscarValues::proxy ? proxy_value_moment(layer, head) : output_moment(layer, head);
}

// Sylvester's, over sqrt(dim).
Matrix hadamard(int dim) {
  Matrix h(dim, dim);
  for (int i = 0; i < dim; ++i)
    for (int j = 0; j < dim; ++j) h(i, j) = (std::popcount(unsigned(i & j)) % 2 == 0 ? 1.0 : -1.0) / std::sqrt(dim);
  return h;
}

int reversed_bits(int value, int dim) {
  int reversed = 0;
  for (int bit = 1; bit < dim; bit *= 2) reversed = 2 * reversed + ((value & bit) != 0 ? 1 : 0);
  return reversed;
}

Matrix rotation_of(const Matrix& weights, OscarRotation kind) {
  const int dim = int(weights.rows());
  if (kind == OscarRotation::none) return Matrix::Identity(dim, dim);
  if (kind != OscarRotation::u && !std::has_single_bit(unsigned(dim)))
    throw Error(ErrorCode::unsupported, "oscar2 needs a head dim that is a power of two, not " + std::to_string(dim) +
                                            ": choose a spectral or turbo codec");
  if (kind == OscarRotation::h) return hadamard(dim);
  const Matrix u = Eigen::SelfAdjointEigenSolver<Matrix>(weights).eigenvectors();  // ascending eigenvalues
  if (kind == OscarRotation::u) return u;
  const Matrix uh = u * hadamard(dim);
  if (kind == OscarRotation::uh) return uh;
  Matrix uhp(dim, dim);  // the channel of rank r goes to the place whose bits are those of r, reversed
  for (int rank = 0; rank < dim; ++rank) uhp.col(reversed_bits(rank, dim)) = uh.col(dim - 1 - rank);
  return uhp;
}

std::vector<float> row_by_row(const Matrix& m) {
  std::vector<float> values;
  for (int i = 0; i < m.rows(); ++i)
    for (int j = 0; j < m.cols(); ++j) values.push_back(float(m(i, j)));
  return values;
}

}  // namespace

float oscar_clip(Side side) {
  return side == Side::key ? 0.96f : 0.92f;
}

std::vector<std::vector<float>> oscar_rotations(const LayerMoments& layer, Side side, const OscarOptions& options) {
  const int dim = side == Side::key ? layer.key_dim : layer.value_dim;
  std::vector<std::vector<float>> rotations;
  Matrix shared = Matrix::Zero(dim, dim);
  for (const HeadMoments& head : layer.heads) {
    const Matrix weights = objective(layer, head, side, options.values);
    if (options.per_head) rotations.push_back(row_by_row(rotation_of(weights, options.rotation)));
    shared += weights;
  }
  if (!options.per_head) rotations.push_back(row_by_row(rotation_of(shared, options.rotation)));
  return rotations;
}

FittedCodec oscar_with_rotations(const LayerMoments& shape, Side side, const OscarOptions& options,
                                 const std::vector<std::vector<float>>& rotations) {
  const int dim = side == Side::key ? shape.key_dim : shape.value_dim;
  const int group = options.group > 0 ? options.group : dim;
  FittedCodec fitted;
  Codec& codec = fitted.codec;
  codec.side = side;
  codec.dim = dim;
  codec.map = MapKind::fitted;
  codec.scale_span = ScaleSpan::token;
  codec.scale_fit = ScaleFit::min_max;
  for (int first = 0; first < dim; first += group)
    codec.segments.push_back({first, std::min(group, dim - first), 2, QuantizerKind::uniform});
  auto maps = std::make_shared<FittedMaps>();
  for (size_t h = 0; h < shape.heads.size(); ++h) {
    const std::vector<float>& rotation = rotations.size() == 1 ? rotations[0] : rotations.at(h);
    FittedMap& map = maps->emplace_back();
    map.dim = map.mapped_dim = dim;
    map.clip = options.clip;
    map.rows.resize(rotation.size());
    for (int i = 0; i < dim; ++i)
      for (int j = 0; j < dim; ++j) map.rows[size_t(j * dim + i)] = rotation[size_t(i * dim + j)];
    map.dual = map.rows;
    if (options.center && side == Side::key) map.mean = key_mean(shape.heads[h]);
  }
  fitted.maps = std::move(maps);
  return fitted;
}

FittedCodec fit_oscar(const LayerMoments& layer, Side side, const OscarOptions& options) {
  return oscar_with_rotations(layer, side, options, oscar_rotations(layer, side, options));
}

}  // namespace kvasir
