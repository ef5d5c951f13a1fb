// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/calibrate/rotation_samples.h"

#include <gtest/gtest.h>

#include <Eigen/QR>
#include <algorithm>
#include <random>

#include "kvasir/error.h"

namespace kvasir::test {
namespace {

void append_rotation(int dim, std::mt19937_64& random, std::vector<float>& numbers) {
  std::normal_distribution<double> normal;
  Eigen::MatrixXd gaussian(dim, dim);
  for (int i = 0; i < dim * dim; ++i) gaussian.data()[i] = normal(random);
  const Eigen::MatrixXd rotation = Eigen::HouseholderQR<Eigen::MatrixXd>(gaussian).householderQ();
  for (int i = 0; i < dim; ++i) {
    for (int j = 0; j < dim; ++j) numbers.push_back(float(rotation(i, j)));
  }
}

}  // namespace

RotationSet sample_rotations(const SampleShape& shape) {
  std::mt19937_64 random(7);
  RotationSet set;
  set.side = shape.side;
  set.per_head = shape.heads > 0;
  set.objective = set.per_head ? "cov_eig_hadamard_perhead" : shape.side == Side::key ? "qqt_r_h_pbr" : "sst_r_h_pbr";
  for (const int id : shape.layers) {
    RotationLayer layer;
    layer.layer = id;
    layer.heads = std::max(1, shape.heads);
    layer.dim = shape.dim;
    for (int head = 0; head < layer.heads; ++head) append_rotation(shape.dim, random, layer.rotation);
    if (!set.per_head) {
      for (int i = 0; i < shape.dim; ++i) layer.eigenvalues.push_back(float(i + 1) / float(id + 1));
    }
    set.layers.push_back(std::move(layer));
  }
  return set;
}

std::string fault_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    return error.what();
  }
  return {};
}

}  // namespace kvasir::test
