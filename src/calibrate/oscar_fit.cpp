// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/oscar_fit.h"

#include <Eigen/Eigenvalues>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

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

// What each rotation is fitted to: means over a KV head's tokens, or over all heads of the layer.
std::vector<Matrix> objectives(const LayerMoments& layer, Side side, OscarValues values, bool per_head) {
  const int dim = side == Side::key ? layer.key_dim : layer.value_dim;
  std::vector<Matrix> own;
  Matrix sum = Matrix::Zero(dim, dim);
  for (const HeadMoments& head : layer.heads) sum += own.emplace_back(objective(layer, head, side, values));
  if (per_head) return own;
  return {sum / double(layer.heads.size())};
}

void append_row_by_row(const Matrix& m, std::vector<float>& values) {
  for (int i = 0; i < m.rows(); ++i)
    for (int j = 0; j < m.cols(); ++j) values.push_back(float(m(i, j)));
}

}  // namespace

float oscar_clip(Side side) {
  return side == Side::key ? 0.96f : 0.92f;
}

std::vector<std::vector<float>> oscar_rotations(const LayerMoments& layer, Side side, const OscarOptions& options) {
  std::vector<std::vector<float>> rotations;
  for (const Matrix& weights : objectives(layer, side, options.values, options.per_head))
    append_row_by_row(rotation_of(weights, options.rotation), rotations.emplace_back());
  return rotations;
}

RotationSet oscar_rotation_set(const std::vector<LayerMoments>& layers, Side side, bool per_head) {
  RotationSet set;
  set.side = side;
  set.objective = side == Side::key ? "qqt_r_h_pbr" : "sst_r_h_pbr";
  set.per_head = per_head;
  for (const LayerMoments& moments : layers) {
    RotationLayer layer;
    layer.layer = int(set.layers.size());
    layer.dim = side == Side::key ? moments.key_dim : moments.value_dim;
    // OSCAR's are of q, those of logits of s q.
    const double unit = side == Side::key ? 1 / (double(moments.scale) * double(moments.scale)) : 1;
    layer.heads = 0;
    for (const Matrix& weights : objectives(moments, side, OscarValues::proxy, per_head)) {
      ++layer.heads;
      append_row_by_row(rotation_of(weights, OscarRotation::uhp), layer.rotation);
      const Vector spectrum = Eigen::SelfAdjointEigenSolver<Matrix>(weights, Eigen::EigenvaluesOnly).eigenvalues();
      for (const double eigenvalue : spectrum) layer.eigenvalues.push_back(float(eigenvalue * unit));
    }
    set.layers.push_back(std::move(layer));
  }
  return set;
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
    if (options.center && side == Side::key && shape.heads[h].key_mean.empty()) map.mean = key_mean(shape.heads[h]);
  }
  if (options.center && side == Side::key) fitted.turning = turning_mean(shape);
  fitted.maps = std::move(maps);
  return fitted;
}

FittedCodec fit_oscar(const LayerMoments& layer, Side side, const OscarOptions& options) {
  return oscar_with_rotations(layer, side, options, oscar_rotations(layer, side, options));
}

}  // namespace kvasir
