// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The angles that are measured against the formula of RoPE, and calibrations that are averaged against windows that
// were read all over the context.
#include "host/rotary_probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/codec_fits.h"
#include "host/calibration_run.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::TemporaryFolder;
using test::TinyModel;

class RotaryProbe : public testing::Test {
 protected:
  std::optional<std::vector<Rotary>> measure(const TinyModel& tiny) {
    return measure_rotary(test::tiny_model(folder_, tiny), 1);
  }
  TemporaryFolder folder_;
};

// Pairs i of `count` have the angle base^(-2 i / dim).
void expect_angles(const Rotary& rotary, bool neighbours, int dim, double base) {
  ASSERT_EQ(rotary.size(), size_t(dim / 2));
  for (int i = 0; i < dim / 2; ++i) {
    const RotaryPair& pair = rotary[size_t(i)];
    EXPECT_EQ(pair.a, neighbours ? 2 * i : i);
    EXPECT_EQ(pair.b, neighbours ? 2 * i + 1 : i + dim / 2);
    const double angle = std::pow(base, -2.0 * i / dim);
    // 4,096 positions on, the turn is right to a few roundings.
    EXPECT_NEAR(pair.angle * 4096, angle * 4096, 2e-3) << "pair " << i;
  }
}

TEST_F(RotaryProbe, FindsNeighboursAndHalves) {
  for (const char* architecture : {"llama", "qwen2", "qwen3", "gemma2"}) {
    SCOPED_TRACE(architecture);
    const auto layers = measure({.architecture = architecture, .embedding = 256});
    ASSERT_TRUE(layers.has_value());
    ASSERT_EQ(layers->size(), 2u);
    for (const Rotary& rotary : *layers) expect_angles(rotary, std::string_view(architecture) == "llama", 64, 10000.0);
  }
}

// As in Gemma 3 270M.
TEST_F(RotaryProbe, DeadPairsDontHideTheOthers) {
  const auto layers = measure({.architecture = "qwen3", .embedding = 256, .dead_pair = true});
  ASSERT_TRUE(layers.has_value());
  for (const Rotary& rotary : *layers) {
    ASSERT_EQ(rotary.size(), 32u);
    for (int i = 1; i < 32; ++i) {
      EXPECT_EQ(rotary[size_t(i)].b, i + 32);
      EXPECT_NEAR(rotary[size_t(i)].angle * 4096, std::pow(10000.0, -i / 32.0) * 4096, 2e-3);
    }
  }
}

TEST_F(RotaryProbe, LayersMayDiffer) {
  const auto layers =
      measure({.architecture = "gemma3", .layers = 6, .embedding = 256, .window = 64, .window_period = 6});
  ASSERT_TRUE(layers.has_value());
  ASSERT_EQ(layers->size(), 6u);
  for (const Rotary& rotary : *layers) EXPECT_EQ(rotary.size(), 32u);
}

TEST_F(RotaryProbe, SomeChannelsMayStay) {
  const auto layers = measure({.architecture = "glm4", .embedding = 256, .rotary = 32});
  ASSERT_TRUE(layers.has_value());
  for (const Rotary& rotary : *layers) expect_angles(rotary, true, 32, 10000.0);
}

TEST_F(RotaryProbe, LayersMayKnowNoPositions) {
  const auto layers = measure({.architecture = "smollm3", .layers = 4, .embedding = 256});
  ASSERT_TRUE(layers.has_value());
  ASSERT_EQ(layers->size(), 4u);
  for (size_t layer = 0; layer < 3; ++layer) EXPECT_EQ((*layers)[layer].size(), 32u);
  EXPECT_TRUE(layers->back().empty());
}

// Queries that also grow, from a quarter of the context on: a calibration leaves keys their mean and reads its windows
// all over the context.
TEST_F(RotaryProbe, OtherChangesAreSeen) {
  const auto model =
      test::tiny_model(folder_, {.architecture = "mistral3", .embedding = 256, .context = 16384, .temperature = 0.1f});
  EXPECT_FALSE(measure_rotary(model, 1).has_value());
  std::vector<int32_t> tokens;
  for (int i = 0; i < 256; ++i) tokens.push_back((i * 37 + i * i) % 250);
  CalibrationOptions options;
  options.tokens = 256;
  options.window = 128;
  options.threads = 1;
  const Calibration plain =
      run_calibration(model, {{tokens.begin(), tokens.begin() + 128}, {tokens.begin() + 128, tokens.end()}}, options);
  EXPECT_FALSE(plain.averaged);
  for (const LayerMoments& layer : plain.layers) {
    EXPECT_TRUE(layer.rotary.empty());
    EXPECT_EQ(turning_mean(layer), nullptr);
  }
  const CodecFits fits(plain);
  EXPECT_EQ(fits.fit("spectral3", Side::key, 0).turning, nullptr);
  EXPECT_FALSE(fits.fit("spectral3", Side::key, 0).maps->at(0).mean.empty());
}

// What no finite number of windows reaches, they come near to: sums of a window over many of its beginnings.
TEST_F(RotaryProbe, AveragedSumsAreThoseOfWindowsEverywhere) {
  const auto model = test::tiny_model(folder_, {.architecture = "qwen2", .embedding = 256, .context = 1024});
  std::vector<int32_t> window;
  for (int i = 0; i < 128; ++i) window.push_back((i * 37 + i * i) % 250);
  CalibrationOptions options;
  options.tokens = options.window = 128;
  options.threads = 1;
  const Calibration averaged = run_calibration(model, {window}, options);
  EXPECT_TRUE(averaged.averaged);
  EXPECT_EQ(averaged.positions, 1024);

  constexpr int kStep = 3;  // no multiple of what the first pairs turn in
  std::vector<std::vector<double>> sums(2, std::vector<double>(64 * 64, 0.0));
  const std::shared_ptr<const TurningMean> turning = turning_mean(averaged.layers[1]);
  ASSERT_NE(turning, nullptr);
  int64_t start = 0;
  int count = 0;
  EngineOptions engine_options;
  engine_options.cache.key = engine_options.cache.value = "f16";
  engine_options.context = engine_options.micro_batch = 128;
  engine_options.threads = 1;
  engine_options.observe = [&](int layer, const AttentionRows& rows) {
    if (layer != 1) return;
    for (int t = options.sink; t < rows.tokens; ++t)
      for (int side = 0; side < 2; ++side) {
        const HeadsView& view = side == 0 ? rows.k : rows.q;
        for (int h = 0; h < (side == 0 ? 1 : 2); ++h) {
          const float* from = view.data + t * view.token_stride + h * view.head_stride;
          std::vector<float> x(from, from + 64), mean(64);
          if (side == 0) {  // the mean of the window's own block, turned to where the window begins
            turning->of_block(0, t, mean.data());
            for (const RotaryPair& pair : averaged.layers[1].rotary) {
              const auto a = size_t(pair.a), b = size_t(pair.b);
              const double c = std::cos(pair.angle * double(start)), s = std::sin(pair.angle * double(start));
              x[a] -= float(c * double(mean[a]) - s * double(mean[b]));
              x[b] -= float(s * double(mean[a]) + c * double(mean[b]));
            }
          }
          for (int i = 0; i < 64; ++i)
            for (int j = 0; j < 64; ++j)
              sums[size_t(side)][size_t(i * 64 + j)] += double(x[size_t(i)]) * double(x[size_t(j)]);
        }
      }
  };
  Engine engine(model, engine_options);
  for (; start < 1024; start += kStep, ++count) {
    engine.start_at(start);
    const SequenceId sequence = engine.cache().create();
    engine.decode(sequence, window);
    engine.cache().remove(sequence);
  }
  const HeadMoments& head = averaged.layers[1].heads[0];
  const std::vector<double>* expected[] = {&sums[0], &sums[1]};
  const std::vector<double>* found[] = {&head.key, &head.query};
  for (int i = 0; i < 2; ++i) {
    double off = 0, size = 0;
    for (size_t j = 0; j < expected[i]->size(); ++j) {
      const double e = (*expected[i])[j] / count;
      off += (e - (*found[i])[j]) * (e - (*found[i])[j]);
      size += e * e;
    }
    EXPECT_LT(std::sqrt(off / size), 0.01) << i;
  }
}

}  // namespace
}  // namespace kvasir
