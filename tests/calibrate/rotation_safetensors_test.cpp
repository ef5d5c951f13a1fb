// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rotation_safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"
#include "tests/calibrate/rotation_samples.h"

namespace kvasir {
namespace {

using test::fault_of;
using test::sample_rotations;

class RotationSafetensors : public testing::Test {
 protected:
  std::string path() const { return folder_.file("x.safetensors"); }
  std::string fault(Side side = Side::key) const {
    return fault_of([&] { read_rotation_safetensors(path(), side); });
  }
  void write(const RotationSet& set) const { write_rotation_safetensors(std::span(&set, 1), path()); }

  test::TemporaryFolder folder_;
};

// A file of one layer with names and values of the caller's.
struct Made {
  std::string format = "kvasir rotations 1", side = "key", grouping = "layer", name = "layers.0.rotation";
  TensorShape shape = {2, 2};
  std::vector<float> numbers = {1, 0, 0, 1};
  TensorShape eigenvalues = {};

  void save(const std::string& path) const {
    const std::vector<float> spectrum(eigenvalues.empty() ? 0 : size_t(eigenvalues[0]), 1.0f);
    SafetensorsWriter writer;
    writer.set_metadata("format", format);
    writer.set_metadata("side", side);
    writer.set_metadata("objective", "");
    writer.set_metadata("grouping", grouping);
    writer.add(name, shape, numbers);
    if (!eigenvalues.empty()) writer.add("layers.0.eigenvalues", eigenvalues, spectrum);
    writer.save(path);
  }
};

TEST_F(RotationSafetensors, GiveBackWhatWasWritten) {
  for (const int heads : {0, 1, 3}) {
    const RotationSet set = sample_rotations({.layers = {0, 3, 12}, .dim = 16, .heads = heads});
    write(set);
    EXPECT_EQ(read_rotation_safetensors(path(), Side::key), set);
    EXPECT_NE(fault(Side::value).find("of the side `key`"), std::string::npos) << fault(Side::value);
  }
}

TEST_F(RotationSafetensors, BothSidesInOneFile) {
  const std::vector<RotationSet> sets = {sample_rotations({.side = Side::value, .layers = {1}, .dim = 4}),
                                         sample_rotations({.heads = 2})};
  write_rotation_safetensors(sets, path());
  EXPECT_EQ(read_rotation_safetensors(path(), Side::value), sets[0]);
  EXPECT_EQ(read_rotation_safetensors(path(), Side::key), sets[1]);
}

TEST_F(RotationSafetensors, OnlySoundSetsAreWritten) {
  RotationSet set = sample_rotations({});
  const std::vector<RotationSet> twice = {set, set};
  EXPECT_NE(fault_of([&] { write_rotation_safetensors(twice, path()); }), "");
  EXPECT_NE(fault_of([&] { write_rotation_safetensors({}, path()); }), "");
  set.layers[0].rotation[0] = std::nanf("");
  EXPECT_NE(fault_of([&] { write(set); }), "");
  EXPECT_NE(fault().find("doesn't exist"), std::string::npos);
}

TEST_F(RotationSafetensors, RefusesOtherFiles) {
  const auto expect_fault = [&](const Made& made, const std::string& part) {
    made.save(path());
    EXPECT_NE(fault().find(part), std::string::npos) << fault();
  };
  Made{}.save(path());
  EXPECT_EQ(fault(), "");
  expect_fault({.format = "other"}, "isn't a file of rotations");
  expect_fault({.side = "both"}, "key.objective");
  expect_fault({.side = ""}, "of the side");
  expect_fault({.grouping = "model"}, "grouping model");
  for (const char* name : {"rotation", "layers.0.rotations", "layers.-1.rotation", "layers.00.rotation",
                           "layers.99999999999.rotation", "layers..rotation", "layers.0"})
    expect_fault({.name = name}, "has no place");
  expect_fault({.name = "layers.1.rotation", .eigenvalues = {2}}, "layer 0 has no rotation");
  expect_fault({.eigenvalues = {3}}, "is [3] instead of [2]");
  expect_fault({.shape = {4}}, "is [4] and not [d, d]");
  expect_fault({.shape = {1, 4}}, "is [1, 4] and not [d, d]");
  expect_fault({.shape = {1, 2, 2}}, "is [1, 2, 2] and not [d, d]");
  expect_fault({.grouping = "per_kv_head"}, "is [2, 2] and not [heads, d, d]");
  expect_fault({.shape = {0, 0}, .numbers = {}}, "and not [d, d]");
  expect_fault({.numbers = {1, 0, 0, std::nanf("")}}, "NaN");
  expect_fault({.numbers = {1, 0, 0, 1.5f}}, "is 1.25");
  Made{}.save(path());
  test::with_every_cut(path(), 1, [&](size_t size) { EXPECT_NE(fault(), "") << "cut to " << size; });
}

}  // namespace
}  // namespace kvasir
