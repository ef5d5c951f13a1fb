// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rotation_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/calibrate/rotation_samples.h"

namespace kvasir {
namespace {

using test::fault_of;
using test::sample_rotations;

void expect_invalid(const RotationSet& set, const std::string& part) {
  const std::string fault = fault_of([&] { validate(set, "`x`"); });
  EXPECT_NE(fault.find(part), std::string::npos) << fault;
  EXPECT_TRUE(fault.starts_with("`x`")) << fault;
}

void expect_mismatch(const RotationSet& set, const std::vector<KvShape>& model, const std::string& part) {
  const std::string fault = fault_of([&] { require_matches(set, model, "`x`"); });
  EXPECT_NE(fault.find(part), std::string::npos) << fault;
}

TEST(RotationSet, RotationsAreOrthogonal) {
  for (const int dim : {2, 64, 128}) {
    const RotationSet set = sample_rotations({.layers = {0}, .dim = dim});
    EXPECT_LT(orthogonality_error(set.layers[0].rotation, dim), 1e-6);
  }
  EXPECT_NEAR(orthogonality_error(std::vector<float>{1, 0, 0, 2}, 2), 3, 1e-12);
}

TEST(RotationSet, SoundOnesPass) {
  EXPECT_EQ(fault_of([] { validate(sample_rotations({.layers = {3, 7, 11}}), "x"); }), "");
  EXPECT_EQ(fault_of([] { validate(sample_rotations({.side = Side::value, .heads = 3}), "x"); }), "");
}

TEST(RotationSet, BrokenOnesAreRefused) {
  RotationSet set = sample_rotations({});
  set.layers[1].rotation[5] = std::numeric_limits<float>::quiet_NaN();
  expect_invalid(set, "NaN or infinity in the rotation of layer 1");
  set = sample_rotations({});
  set.layers[0].eigenvalues[2] = std::numeric_limits<float>::infinity();
  expect_invalid(set, "NaN or infinity in the eigenvalues of layer 0");

  set = sample_rotations({.heads = 2});
  for (int i = 64; i < 128; ++i) set.layers[1].rotation[size_t(i)] *= std::sqrt(1.5f);
  expect_invalid(set, "is 0.5, at most 0.001 is a rotation: matrix 1 of layer 1");

  set = sample_rotations({});
  set.layers[1].rotation.pop_back();
  expect_invalid(set, "don't fill");
  set = sample_rotations({});
  set.layers[1].eigenvalues.pop_back();
  expect_invalid(set, "eigenvalues");
  set = sample_rotations({});
  set.layers[1].dim = 0;
  expect_invalid(set, "channels");
  set = sample_rotations({.heads = 2});
  set.per_head = false;
  expect_invalid(set, "grouping `layer`");
  set = sample_rotations({.layers = {4, 4}});
  expect_invalid(set, "layer 4 is there twice");
  set = sample_rotations({.layers = {4, 2}});
  expect_invalid(set, "layer 2 stands behind layer 4");
  set = sample_rotations({.layers = {}});
  expect_invalid(set, "no layer");
  set = sample_rotations({.layers = {0}});
  set.layers[0].layer = -1;
  expect_invalid(set, "no layer -1");
}

TEST(RotationSet, MatchesItsModelOnly) {
  const RotationSet shared = sample_rotations({.layers = {0, 1}});
  const RotationSet per_head = sample_rotations({.layers = {0, 1}, .heads = 2});
  const std::vector<KvShape> model = {{2, 8}, {2, 8}};
  EXPECT_EQ(fault_of([&] { require_matches(shared, model, "x"); }), "");
  EXPECT_EQ(fault_of([&] { require_matches(per_head, model, "x"); }), "");
  EXPECT_EQ(fault_of([&] { require_matches(shared, std::vector<KvShape>{{4, 8}, {1, 8}}, "x"); }), "");

  expect_mismatch(shared, {{2, 8}, {2, 8}, {2, 8}}, "it has 2 layers and the model has 3");
  expect_mismatch(shared, {{2, 8}}, "it has 2 layers and the model has 1");
  expect_mismatch(shared, {{2, 8}, {2, 16}}, "layer 1 has a head dimension of 8 and the model's one of 16");
  expect_mismatch(per_head, {{2, 8}, {4, 8}}, "layer 1 has 2 KV heads and the model's has 4");
}

// Layers of a hybrid model that keep no cache have no rotation, by their own numbers.
TEST(RotationSet, HybridModels) {
  const std::vector<KvShape> model = {{0, 0}, {2, 8}, {0, 0}, {2, 8}};
  EXPECT_EQ(fault_of([&] { require_matches(sample_rotations({.layers = {1, 3}}), model, "x"); }), "");
  expect_mismatch(sample_rotations({.layers = {0, 1}}), model, "a layer 0, which the model (4 layers, 2 with");
  expect_mismatch(sample_rotations({.layers = {1, 5}}), model, "a layer 5");
  expect_mismatch(sample_rotations({.layers = {1}}), model, "it has 1 layers and the model has 2");
}

}  // namespace
}  // namespace kvasir
