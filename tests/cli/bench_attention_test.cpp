// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench attention` from outside, and where its fitted codecs come from.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/attention_setup.h"
#include "cli/bench_fits.h"
#include "cli/filled_cache.h"
#include "kvasir/error.h"
#include "tests/cli/program.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;

Json bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"bench", "attention", "--json", "--repeat", "1"});
  const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json result = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(result.is_object()) << outcome.out;
  return result;
}

void expect_times(const Json& times) {
  EXPECT_GT(times.at("median"), 0.0);
  EXPECT_LE(times.at("p25"), times.at("median"));
  EXPECT_GE(times.at("p75"), times.at("median"));
}

LayerGeometry layer_of(int dim, int kv_heads) {
  LayerGeometry layer;
  layer.heads = 2 * kv_heads;
  layer.kv_heads = kv_heads;
  layer.key_dim = layer.value_dim = dim;
  layer.scale = 1.0f / std::sqrt(float(dim));
  return layer;
}

TEST(BenchAttention, Decode) {
  const Json result = bench({"--tokens", "700", "--batch", "2", "--kv", "turbo4,oscar2,spectral3", "--head-dim", "64",
                             "--baselines", "f16,q4_0", "--simd", "scalar"});
  EXPECT_EQ(result.at("routine"), "decode");
  EXPECT_EQ(result.at("codec"), "turbo4");
  EXPECT_EQ(result.at("simd"), "scalar");
  EXPECT_FALSE(result.at("ggml_simd").get<std::string>().empty());
  EXPECT_EQ(result.at("shape").at("batch"), 2);
  EXPECT_EQ(result.at("shape").at("tokens"), 700);
  EXPECT_GT(result.at("stream_gbps"), 0.0);
  EXPECT_GT(result.at("copies"), 1);
  ASSERT_EQ(result.at("codecs").size(), 3u);
  for (const auto& [name, figures] : result.at("codecs").items()) {
    EXPECT_GT(figures.at("ns_per_token"), 0.0) << name;
    EXPECT_NEAR(figures.at("gbps").get<double>() / result.at("stream_gbps").get<double>(), figures.at("stream_share"),
                1e-9);
    expect_times(figures.at("step_us"));
    EXPECT_GT(figures.at("ratio").at("ggml-f16"), 0.0);
    EXPECT_EQ(figures.at("ratio").at("ggml-q8_0"), nullptr);
    EXPECT_GT(figures.at("codec_error"), 0.0);
    EXPECT_LT(figures.at("codec_error"), 1.0) << name;
    EXPECT_LT(figures.at("kernel_share"), 0.1) << name;
    EXPECT_NEAR(figures.at("kernel_error").get<double>() / figures.at("codec_error").get<double>(),
                figures.at("kernel_share"), 1e-9);
    EXPECT_EQ(figures.at("effective").at("attention"), "scalar");
  }
  EXPECT_EQ(result.at("baselines").size(), 2u);
  EXPECT_LT(result.at("baselines").at("ggml-f16").at("codec_error"), 0.02);
}

TEST(BenchAttention, Prefill) {
  const Json result = bench({"--routine", "prefill", "--tokens", "600", "--batch", "100", "--head-dim", "64"});
  EXPECT_EQ(result.at("shape").at("past"), 600);
  EXPECT_EQ(result.at("shape").at("block"), 100);
  EXPECT_EQ(result.at("copies"), 1);
  expect_times(result.at("step_us"));
  expect_times(result.at("encode_us"));
  EXPECT_GT(result.at("encode_share"), 0.0);
  EXPECT_GT(result.at("gflops"), 0.0);
  EXPECT_LT(result.at("kernel_share"), 0.1);
  EXPECT_EQ(result.at("baselines").size(), 3u);
  for (const auto& [name, figures] : result.at("baselines").items())
    EXPECT_LT(figures.at("codec_error"), 0.3) << name;  // a wrong mask would be off by as much as the result
}

TEST(BenchAttention, Encode) {
  const Json result = bench({"--routine", "encode", "--tokens", "1000", "--kv", "turbo4,q8", "--head-dim", "64"});
  // Sinks 0-63; the last block starts at 960, and 256 recent tokens before it stay.
  EXPECT_EQ(result.at("shape").at("packed"), 960 - 256 - 64);
  EXPECT_GT(result.at("tokens_per_second"), 0.0);
  EXPECT_GT(result.at("ns_per_value"), 0.0);
  EXPECT_NEAR(result.at("bits_per_value").get<double>(), 4.5, 0.2);
  for (const char* side : {"key_error", "value_error"}) {
    EXPECT_NEAR(result.at(side).get<double>(), std::sqrt(0.0095), 0.01) << side;
    EXPECT_LT(result.at("codecs").at("q8").at(side), 0.02) << side;
    EXPECT_LT(result.at("baselines").at("ggml-q8_0").at(side), 0.01) << side;
    EXPECT_LT(result.at("baselines").at("ggml-f16").at(side), 0x1p-11) << side;
  }
}

TEST(BenchAttention, Shapes) {
  const Json shapes = bench({"--shapes", "--tokens", "400", "--no-refcheck", "--baselines", "f16"}).at("shapes");
  ASSERT_GE(shapes.size(), 5u);
  for (const Json& shape : shapes) {
    EXPECT_GT(shape.at("ns_per_token"), 0.0);
    EXPECT_EQ(shape.at("codec_error"), nullptr);
    EXPECT_EQ(shape.at("shape").at("tokens"), 400);
  }
}

TEST(BenchAttention, NoBaselines) {
  const std::vector<std::string> arguments = {"bench",      "attention", "--tokens",    "400",  "--repeat",
                                              "1",          "-t",        "2",           "--kv", "turbo3/turbo2",
                                              "--head-dim", "40",        "--baselines", "none"};
  const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("turbo3/turbo2"), std::string::npos);
  EXPECT_EQ(outcome.out.find("x ggml"), std::string::npos);
  EXPECT_NE(outcome.out.find("kernel/codec"), std::string::npos);
}

TEST(AttentionSetup, SizesByRoutine) {
  AttentionFlags flags;
  flags.tokens = 2000;
  flags.baselines = "none";
  AttentionSetup setup = attention_setup(flags);
  EXPECT_EQ(setup.past, 1999);
  EXPECT_EQ(setup.block, 1);
  EXPECT_EQ(setup.sequences, 1);
  // 128 MiB of them, so that none is found in a cache.
  EXPECT_GT(setup.copies * double(plan_size({{setup.layer}}, setup.codecs[0].options, 2000).total()), 128 << 20);
  flags.batch = 4;
  setup = attention_setup(flags);
  EXPECT_EQ(setup.block, 1);
  EXPECT_EQ(setup.sequences, 4);
  flags.routine = "prefill";
  setup = attention_setup(flags);
  EXPECT_EQ(setup.past, 2000);
  EXPECT_EQ(setup.block, 4);
  EXPECT_EQ(setup.copies, 1);
  flags.routine = "encode";
  flags.batch = 5000;
  setup = attention_setup(flags);
  EXPECT_EQ(setup.past, 0);
  EXPECT_EQ(setup.block, 2000);
}

TEST(BenchFits, FromGaussianValues) {
  const LayerGeometry layer = layer_of(64, 2);
  const auto fits = gaussian_fits(layer);
  EXPECT_EQ(fits->layers(), 1);
  for (const char* name : {"spectral2", "spectral3", "spectral4", "oscar2"})
    for (const Side side : {Side::key, Side::value}) {
      const FittedCodec fitted = fits->fit(name, side, 0);
      EXPECT_EQ(fitted.codec.dim, 64) << name;
      EXPECT_EQ(fitted.maps->size(), 2u) << name;
    }
}

TEST(BenchFits, FromAFileOfAnotherModel) {
  const kvasir::test::TemporaryFolder folder;
  const std::string file = folder.file("calibration");
  save_calibration(*gaussian_fits(layer_of(64, 2))->calibration(), file);
  const LayerGeometry layer = layer_of(64, 5);  // more KV heads than the file has
  const auto fits = fits_of_file(file, layer);
  EXPECT_EQ(fits->fit("oscar2", Side::key, 0).maps->size(), 5u);
  CacheOptions options;
  options.key = options.value = "spectral3";
  options.fitted = fits;
  EXPECT_NO_THROW(Cache(Geometry{{layer}}, options));
  EXPECT_EQ(fits_of_file(file, layer_of(64, 1))->fit("oscar2", Side::key, 0).maps->size(), 1u);
  try {
    fits_of_file(file, layer_of(128, 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("--head-dim 64"), std::string::npos) << error.what();
  }
}

// Moments of many rows come back: means to 1/sqrt(n), variances to sqrt(2/n) of them, five deviations wide.
TEST(BenchFits, InputHasTheMoments) {
  const LayerGeometry layer = layer_of(8, 1);
  LayerMoments moments(layer);
  HeadMoments& head = moments.heads[0];
  head.tokens = 10;
  head.queries = 20;
  for (int c = 0; c < 8; ++c) {
    const auto at = size_t(c) * 9;
    const double mean = c;
    head.key_sum[size_t(c)] = 10 * mean;
    for (int d = 0; d < 8; ++d) head.key[size_t(c * 8 + d)] = 10 * mean * d;
    head.key[at] += 10 * 4.0;
    head.value[at] = 10 * 9.0;
    head.query[at] = 20 * 0.25;
  }
  // Channels 0 and 1 of values go together.
  head.value[1] = head.value[8] = 10 * 8.0;
  LayerInput input = gaussian_input(layer, 19999, 1, 1, 3);
  give_moments(input, moments);
  const double n = 20000;
  for (int c = 0; c < 8; ++c) {
    double sum = 0, squares = 0, values = 0, product = 0;
    for (size_t t = 0; t < 20000; ++t) {
      const double k = input.k[t * 8 + size_t(c)] - c;
      sum += k;
      squares += k * k;
      const double v = input.v[t * 8 + size_t(c)];
      values += v * v;
      product += v * double(input.v[t * 8]);
    }
    EXPECT_NEAR(sum / n, 0, 5 * 2 / std::sqrt(n)) << c;
    EXPECT_NEAR(squares / n, 4, 5 * 4 * std::sqrt(2 / n)) << c;
    EXPECT_NEAR(values / n, 9, 5 * 9 * std::sqrt(2 / n)) << c;
    EXPECT_NEAR(product / n, c == 0 ? 9 : c == 1 ? 8 : 0, 5 * 9 * std::sqrt(2 / n)) << c;
  }
  for (const float q : input.q) EXPECT_LT(std::abs(q), 5 * 0.5f);
}

}  // namespace
}  // namespace kvasir::cli::test
