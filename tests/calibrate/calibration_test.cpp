// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "calibrate/codec_fits.h"
#include "calibrate/rotation_safetensors.h"
#include "calibrate/window_moments.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"
#include "tests/calibrate/rotation_samples.h"
#include "tests/calibrate/sample_layer.h"

namespace kvasir {
namespace {

using test::fault_of;

constexpr int kWindow = 24, kSink = 2, kRecent = 3;

const std::vector<LayerGeometry>& shapes() {
  static const std::vector<LayerGeometry> two = {
      {.heads = 4, .kv_heads = 2, .key_dim = 8, .value_dim = 16, .scale = 0.25f, .sink_logits = {}},
      {.heads = 1, .kv_heads = 1, .key_dim = 16, .value_dim = 8, .scale = 0.5f, .window = 9, .sink_logits = {}}};
  return two;
}

Calibration empty_calibration() {
  Calibration calibration;
  calibration.model = "0123456789abcdef";
  calibration.name = "a model";
  calibration.text = "essays \"and\" more, ünïcode";
  calibration.text_hash = "fedcba9876543210";
  calibration.window = kWindow;
  calibration.positions = 64;
  calibration.averaged = true;
  calibration.sink = kSink;
  calibration.recent = kRecent;
  for (const LayerGeometry& shape : shapes()) calibration.layers.emplace_back(shape);
  calibration.layers[0].rotary = {{0, 4, 1.0}, {1, 5, 0.25}};  // half of the channels, and none in the other layer
  return calibration;
}

void read_window(Calibration& calibration, uint64_t seed) {
  for (size_t i = 0; i < shapes().size(); ++i) {
    const test::SampleLayer layer = test::sample_layer(shapes()[i], kWindow, seed + 100 * i);
    WindowMoments window(shapes()[i], kWindow, kSink, kRecent);
    window.add(layer.rows(0, kWindow), 1);
    window.finish(calibration.layers[i], 1, calibration.averaged);
  }
  calibration.tokens += kWindow;
}

class CalibrationFile : public testing::Test {
 protected:
  CalibrationFile() { read_window(calibration_, 1); }
  std::string path() const { return folder_.file("c.safetensors"); }
  std::string fault() const {
    return fault_of([&] { load_calibration(path()); });
  }

  test::TemporaryFolder folder_;
  Calibration calibration_ = empty_calibration();
};

TEST_F(CalibrationFile, GivesBackWhatWasWritten) {
  save_calibration(calibration_, path());
  EXPECT_EQ(load_calibration(path()), calibration_);
  const std::string bytes = test::read_bytes(path());
  save_calibration(load_calibration(path()), path());
  EXPECT_EQ(test::read_bytes(path()), bytes);
}

// Of models that do something else with positions.
TEST_F(CalibrationFile, PlainOnesHaveNoMeans) {
  Calibration plain = empty_calibration();
  plain.averaged = false;
  plain.layers[0].rotary.clear();
  read_window(plain, 1);
  EXPECT_EQ(turning_mean(plain.layers[0]), nullptr);
  save_calibration(plain, path());
  EXPECT_EQ(load_calibration(path()), plain);
}

// Their tensors are the same; what fits make of them says so.
TEST_F(CalibrationFile, EarlierVersionsAreReadAndNamed) {
  save_calibration(calibration_, path());
  EXPECT_EQ(CodecFits(load_calibration(path())).description().find("earlier version"), std::string::npos);
  std::string bytes = test::read_bytes(path());
  const std::string format = "kvasir calibration 5";
  const size_t at = bytes.find(format);
  ASSERT_NE(at, std::string::npos);
  std::vector<LayerMoments> without_firsts = calibration_.layers;
  for (LayerMoments& layer : without_firsts) {
    layer.windows = 0;
    for (HeadMoments& head : layer.heads) head.first_key_sum.clear();
  }
  for (const char number : {'3', '4'}) {
    bytes[at + format.size() - 1] = number;
    test::write_bytes(path(), bytes);
    const Calibration read = load_calibration(path());
    EXPECT_EQ(read.layers, without_firsts);
    EXPECT_TRUE(read.older);
    EXPECT_NE(CodecFits(read).description().find("earlier version"), std::string::npos);
    EXPECT_EQ(turning_mean(read.layers[0])->beyond_block(0), nullptr);
  }
}

// A run that stops after a window and goes on from the file ends where one without a stop does, to the last bit.
TEST_F(CalibrationFile, RunsGoOnFromIt) {
  save_calibration(calibration_, path());
  Calibration resumed = load_calibration(path());
  read_window(calibration_, 2);
  read_window(resumed, 2);
  EXPECT_EQ(resumed, calibration_);
}

TEST_F(CalibrationFile, EveryCutIsRefused) {
  save_calibration(calibration_, path());
  test::with_every_cut(path(), 7, [&](size_t size) { EXPECT_NE(fault(), "") << "cut to " << size; });
}

// A changed header is refused or still describes moments that can be worked with: the strings aren't guarded.
TEST_F(CalibrationFile, ChangedHeadersDoNoHarm) {
  save_calibration(calibration_, path());
  const std::string whole = test::read_bytes(path());
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  int refused = 0;
  test::with_every_flip(path(), 8 + size_t(length), test::Bits::one_of_each_byte, [&](size_t at) {
    const std::string message = fault_of([&] {
      const Calibration read = load_calibration(path());
      EXPECT_EQ(read.layers, calibration_.layers) << at;
    });
    refused += !message.empty();
  });
  EXPECT_GT(refused, int(length) / 2);
}

TEST_F(CalibrationFile, RefusesWhatIsNoMoment) {
  const auto expect_fault = [&](const Calibration& made, const std::string& part) {
    save_calibration(made, path());
    EXPECT_NE(fault().find(part), std::string::npos) << fault();
    EXPECT_NE(fault().find("kvasir calibrate"), std::string::npos) << fault();
  };
  for (const double bad : {std::nan(""), double(INFINITY)}) {
    Calibration changed = calibration_;
    changed.layers[1].heads[0].proxy_value[0] = bad;
    expect_fault(changed, "aren't finite");
    changed = calibration_;
    changed.layers[0].heads[1].key_sum[3] = bad;
    expect_fault(changed, "aren't finite");
    changed = calibration_;
    changed.layers[0].heads[1].queries = bad;
    expect_fault(changed, "seen no tokens");
    changed = calibration_;
    changed.layers[0].scale = float(bad);
    expect_fault(changed, "no scale");
  }
  for (const float bad : {0.0f, -0.25f, 1e30f}) {
    Calibration changed = calibration_;
    changed.layers[0].scale = bad;
    expect_fault(changed, "no scale");
  }
  Calibration changed = calibration_;
  changed.layers[0].heads[0].tokens = 0;
  expect_fault(changed, "seen no tokens");
  changed = calibration_;
  changed.tokens = 0;
  expect_fault(changed, "tokens is '0'");
  changed = calibration_;
  changed.tokens = changed.window - 1;
  expect_fault(changed, "no whole window");
  changed = calibration_;
  changed.layers[0].heads[0].first_key_sum[2] = std::nan("");
  expect_fault(changed, "aren't finite");
  changed = calibration_;
  LayerGeometry wide = shapes()[0];
  wide.key_dim = kMaxHeadDim + 8;
  changed.layers[0] = LayerMoments(wide);
  for (HeadMoments& head : changed.layers[0].heads) {
    head.key_mean.resize(size_t(wide.key_dim));
    head.first_key_sum.resize(size_t(wide.key_dim));
  }
  expect_fault(changed, "no shape");
  changed = calibration_;
  changed.layers.clear();
  expect_fault(changed, "layers is '0'");
}

TEST_F(CalibrationFile, RefusesOtherFiles) {
  EXPECT_NE(fault().find("c.safetensors"), std::string::npos);  // there is none
  const RotationSet rotations = test::sample_rotations({});
  write_rotation_safetensors(std::span(&rotations, 1), path());
  EXPECT_NE(fault().find("is no calibration"), std::string::npos) << fault();
}

}  // namespace
}  // namespace kvasir
