// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/rotation_zoo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"
#include "tests/calibrate/rotation_samples.h"
#include "tests/calibrate/torch_file.h"

namespace kvasir {
namespace {

using namespace std::string_literals;
using test::fault_of;
using test::sample_rotations;
using test::TorchFile;
using test::zoo_file;
using test::ZooVariant;

class RotationZoo : public testing::Test {
 protected:
  std::string path() const { return folder_.file("k_rotation.pt"); }
  std::string fault(Side side = Side::key) const {
    return fault_of([&] { read_rotation_zoo(path(), side); });
  }
  void expect_fault(const TorchFile& file, const std::string& part) const {
    file.write(path());
    const std::string found = fault();
    EXPECT_NE(found.find(part), std::string::npos) << found;
    EXPECT_TRUE(found.starts_with("`" + path() + "`")) << found;
  }
  void expect_fault(const RotationSet& set, const ZooVariant& variant, const std::string& part) const {
    expect_fault(zoo_file(set, variant), part);
  }

  test::TemporaryFolder folder_;
};

TEST_F(RotationZoo, ReadsBothVersions) {
  for (const int heads : {0, 1, 3}) {
    for (const bool text_keys : {false, true}) {
      for (const std::vector<int>& layers : {std::vector<int>{0}, {0, 1, 2}, {3, 7, 11, 300}}) {
        const RotationSet set = sample_rotations({.layers = layers, .dim = 16, .heads = heads});
        zoo_file(set, {.text_keys = text_keys}).write(path());
        EXPECT_EQ(read_rotation_zoo(path(), Side::key), set) << heads << text_keys << layers.size();
      }
    }
  }
}

TEST_F(RotationZoo, SortsLayers) {
  RotationSet set = sample_rotations({.layers = {0, 1, 2}});
  std::swap(set.layers[0], set.layers[2]);
  zoo_file(set).write(path());
  std::swap(set.layers[0], set.layers[2]);
  EXPECT_EQ(read_rotation_zoo(path(), Side::key), set);
}

TEST_F(RotationZoo, ManyLayers) {
  const RotationSet set = [] {
    std::vector<int> layers(70);
    for (int i = 0; i < 70; ++i) layers[size_t(i)] = i;
    return sample_rotations({.layers = layers});
  }();
  zoo_file(set).write(path());
  EXPECT_EQ(read_rotation_zoo(path(), Side::key), set);
}

TEST_F(RotationZoo, WithoutOptionalMembersAndEigenvalues) {
  RotationSet set = sample_rotations({});
  set.objective = "hadamard";
  for (RotationLayer& layer : set.layers) layer.eigenvalues.clear();
  TorchFile file = zoo_file(set);
  for (const char* name : {".format_version", ".storage_alignment", "byteorder", ".data/serialization_id"})
    file.remove(name);
  file.stem = "archive";
  file.write(path());
  EXPECT_EQ(read_rotation_zoo(path(), Side::key), set);
  set.side = Side::value;
  EXPECT_EQ(read_rotation_zoo(path(), Side::value), set);
}

TEST_F(RotationZoo, ExchangedSidesAreRefused) {
  zoo_file(sample_rotations({})).write(path());
  EXPECT_NE(fault(Side::value).find("holds rotations of keys"), std::string::npos) << fault(Side::value);
  zoo_file(sample_rotations({.side = Side::value})).write(path());
  EXPECT_NE(fault(Side::key).find("holds rotations of values"), std::string::npos);
  EXPECT_EQ(fault(Side::value), "");
}

TEST_F(RotationZoo, RefusesOtherArchives) {
  const RotationSet set = sample_rotations({});
  TorchFile file = zoo_file(set);
  file["byteorder"] = "big";
  expect_fault(file, "little-endian");
  file = zoo_file(set);
  file["version"] = "4\n";
  expect_fault(file, "another version");
  file = zoo_file(set);
  file.remove("version");
  expect_fault(file, "lacks the member version");
  file = zoo_file(set);
  file.remove("data.pkl");
  expect_fault(file, "lacks the member data.pkl");
  file = zoo_file(set);
  file.members[0].compressed = true;
  file.members[0].bytes = std::string(256, '\0');
  expect_fault(file, "compressed");
  file = zoo_file(set);
  file["constants.pkl"] = "}.";
  expect_fault(file, "constants.pkl is none of such a file");
  for (const char* name : {"data/", "data/x", "data/0/1", "data/-1", "data/12345678901", "../x", "code/x.py"}) {
    file = zoo_file(set);
    file[name] = "x";
    expect_fault(file, "none of such a file");
  }
  file = zoo_file(set);
  file.stem = "";
  expect_fault(file, "isn't a rotation file");
  file = zoo_file(set);
  file["version"] = std::string(100, '3');
  expect_fault(file, "too large");
  file = zoo_file(set);
  file["data/77"] = test::float_bytes({1});
  expect_fault(file, "no tensor uses data/77");
  file = zoo_file(set);
  file.remove("data/2");
  expect_fault(file, "lacks the member data/2");
  file = zoo_file(set);
  file["data/1"].pop_back();
  expect_fault(file, "no floats");
  file = zoo_file(set);
  file["data/1"].resize(16);
  expect_fault(file, "4 numbers and not the 8");
}

TEST_F(RotationZoo, RefusesOtherPickles) {
  TorchFile file = zoo_file(sample_rotations({}));
  file["data.pkl"] = "\x80\x02"s + "cos\nsystem\n(X\x02\0\0\0lstR."s;
  expect_fault(file, "asks for os.system");
  file["data.pkl"] = "\x80\x02N.";
  expect_fault(file, "opcode 0x4e");
  file["data.pkl"] = "\x80\x02K\x01.";
  expect_fault(file, "the file is of another type");
  file["data.pkl"] = "\x80\x02}.";
  expect_fault(file, "lacks format_version");
}

TEST_F(RotationZoo, RefusesOtherContents) {
  const RotationSet set = sample_rotations({}), per_head = sample_rotations({.heads = 2});
  expect_fault(set, {.format_version = 3}, "format_version is 3");
  expect_fault(set, {.format_version = 2}, "source_grouping is layer and not the per_kv_head of format_version 2");
  expect_fault(set, {.grouping = "model"}, "source_grouping is model");
  expect_fault(per_head, {.format_version = 1, .grouping = "layer"}, "is [2, 8, 8] and not [d, d]");
  expect_fault(set, {.format_version = 2, .grouping = "per_kv_head"}, "is [8, 8] and not [heads, d, d]");
  expect_fault(set, {.extra_key = "model"}, "entry that such files don't have");
  expect_fault(set, {.extra_key = "objective"}, "objective twice");
  expect_fault(set, {.transposed = true}, "layer 0's rotation isn't stored row by row");
  expect_fault(set, {.offset = 1}, "reaches beyond its storage");
  expect_fault(set, {.offset = -1}, "reaches beyond its storage");
  expect_fault(set, {.claimed_numbers = 7}, "64 numbers and not the 7");
  expect_fault(sample_rotations({.layers = {}}), {}, "no layer");
  expect_fault(sample_rotations({.layers = {2, 2}}), {}, "layer 2 is there twice");

  RotationSet broken = set;
  broken.layers[1].rotation[3] = std::nanf("");
  expect_fault(broken, {}, "NaN or infinity in the rotation of layer 1");
  broken = set;
  for (float& number : broken.layers[1].rotation) number *= 1.01f;
  expect_fault(broken, {}, "max |RᵀR − I| is 0.0201");
  broken = per_head;
  broken.layers[0].rotation.resize(64);
  broken.layers[0].heads = 2;
  expect_fault(broken, {}, "reaches beyond its storage");
}

TEST_F(RotationZoo, NeitherZipNorThere) {
  EXPECT_NE(fault().find("doesn't exist"), std::string::npos);
  for (const std::string& bytes : {std::string(), std::string("PK\x03\x04"), std::string("\x80\x02}."),
                                   std::string("PK\x05\x06") + std::string(18, '\0')}) {
    test::write_bytes(path(), bytes);
    EXPECT_NE(fault(), "");
  }
}

// A cut file has lost its directory at the end; a changed bit is caught by a CRC, or stands where it means nothing.
TEST_F(RotationZoo, DamageIsFoundOrHarmless) {
  const RotationSet set = sample_rotations({.dim = 4});
  zoo_file(set).write(path());
  const size_t bytes = test::read_bytes(path()).size();
  test::with_every_flip(path(), bytes, test::Bits::one_of_each_byte, [&](size_t at) {
    try {
      EXPECT_EQ(read_rotation_zoo(path(), Side::key), set) << at;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    }
  });
  EXPECT_EQ(fault(), "");
  test::with_every_cut(path(), 7, [&](size_t size) { EXPECT_NE(fault(), "") << "cut to " << size; });
}

}  // namespace
}  // namespace kvasir
