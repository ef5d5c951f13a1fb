// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rotation_set.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "kvasir/error.h"

namespace kvasir {
namespace {

bool all_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
}

int layers_with_cache(std::span<const KvShape> model) {
  return int(std::count_if(model.begin(), model.end(), [](const KvShape& shape) { return shape.kv_heads > 0; }));
}

void validate_layer(const RotationLayer& layer, bool per_head, const std::string& source) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::corrupt, fmt::format("{}: {} of layer {}", source, what, layer.layer));
  };
  if (layer.dim < 1 || layer.dim > kMaxRotationDim)
    fail(fmt::format("rotations are of 1 to {} channels, not the {}", kMaxRotationDim, layer.dim));
  if (layer.heads < 1 || layer.heads > kMaxRotationHeads || (!per_head && layer.heads != 1))
    fail(fmt::format("{} matrices are not what the grouping `{}` means, as", layer.heads, grouping_name(per_head)));
  const size_t matrix = size_t(layer.dim) * size_t(layer.dim);
  if (layer.rotation.size() != size_t(layer.heads) * matrix) fail("the numbers don't fill the rotation");
  if (!layer.eigenvalues.empty() && layer.eigenvalues.size() != size_t(layer.heads) * size_t(layer.dim))
    fail("there are not as many eigenvalues as channels in the rotation");
  if (!all_finite(layer.rotation)) fail("there is NaN or infinity in the rotation");
  if (!all_finite(layer.eigenvalues)) fail("there is NaN or infinity in the eigenvalues");
  for (int head = 0; head < layer.heads; ++head) {
    const double error =
        orthogonality_error(std::span(layer.rotation).subspan(size_t(head) * matrix, matrix), layer.dim);
    if (!(error < kMaxRotationError))
      fail(fmt::format("max |RᵀR − I| is {:.3g}, at most {:g} is a rotation: matrix {}", error, kMaxRotationError,
                       head));
  }
}

}  // namespace

std::string_view side_name(Side side) {
  return side == Side::key ? "key" : "value";
}

std::string_view grouping_name(bool per_head) {
  return per_head ? "per_kv_head" : "layer";
}

double orthogonality_error(std::span<const float> rotation, int dim) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd r = Eigen::Map<const Matrix>(rotation.data(), dim, dim).cast<double>();
  // RᵀR - I is symmetric: its lower triangle, half the work.
  Eigen::MatrixXd difference = -Eigen::MatrixXd::Identity(dim, dim);
  difference.selfadjointView<Eigen::Lower>().rankUpdate(r.transpose());
  return difference.cwiseAbs().maxCoeff();
}

void validate(const RotationSet& set, const std::string& source) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::corrupt, source + ": " + what); };
  if (set.layers.empty()) fail("there is no layer in it");
  if (set.layers.size() > size_t(kMaxRotationLayers)) fail(fmt::format("more than {} layers", kMaxRotationLayers));
  int before = -1;
  for (const RotationLayer& layer : set.layers) {
    if (layer.layer < 0) fail(fmt::format("there is no layer {}", layer.layer));
    if (layer.layer == before) fail(fmt::format("layer {} is there twice", layer.layer));
    if (layer.layer < before) fail(fmt::format("layer {} stands behind layer {}", layer.layer, before));
    before = layer.layer;
    validate_layer(layer, set.per_head, source);
  }
}

void require_matches(const RotationSet& set, std::span<const KvShape> model, const std::string& source) {
  const auto fail = [&](const std::string& what) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} was made for another model: {}; calibrate this model or name its own file", source, what));
  };
  const int expected = layers_with_cache(model);
  if (int(set.layers.size()) != expected)
    fail(fmt::format("it has {} layers and the model has {} with a KV cache", set.layers.size(), expected));
  for (const RotationLayer& layer : set.layers) {
    if (layer.layer < 0 || size_t(layer.layer) >= model.size() || model[size_t(layer.layer)].kv_heads == 0)
      fail(fmt::format("it has a layer {}, which the model ({} layers, {} with a KV cache) has not", layer.layer,
                       model.size(), expected));
    const KvShape& shape = model[size_t(layer.layer)];
    if (layer.dim != shape.dim)
      fail(fmt::format("its layer {} has a head dimension of {} and the model's one of {}", layer.layer, layer.dim,
                       shape.dim));
    if (set.per_head && layer.heads != shape.kv_heads)
      fail(
          fmt::format("its layer {} has {} KV heads and the model's has {}", layer.layer, layer.heads, shape.kv_heads));
  }
}

}  // namespace kvasir
