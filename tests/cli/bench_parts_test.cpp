// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks stand on: that both sides compute the same thing, and that their times are compared in pairs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <vector>

#include "cli/child_process.h"
#include "cli/codec_list.h"
#include "cli/filled_cache.h"
#include "cli/ggml_attention.h"
#include "cli/paired_times.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

LayerGeometry small_layer() {
  LayerGeometry layer;
  layer.heads = 6;
  layer.kv_heads = 2;
  layer.key_dim = layer.value_dim = 64;
  layer.scale = 0.125f;
  return layer;
}

double relative_rms(std::span<const float> out, const std::vector<double>& exact) {
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (double(out[i]) - exact[i]) * (double(out[i]) - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(difference / size);
}

AttentionOptions plain() {
  return AttentionOptions();
}

CacheOptions f16_cache() {
  CacheOptions options;
  options.key = options.value = "f16";
  return options;
}

TEST(PairedTimes, QuartilesInterpolate) {
  const Quartiles q = quartiles({4.0, 1.0, 3.0, 2.0, 5.0});
  EXPECT_DOUBLE_EQ(q.low, 2.0);
  EXPECT_DOUBLE_EQ(q.median, 3.0);
  EXPECT_DOUBLE_EQ(q.high, 4.0);
  EXPECT_DOUBLE_EQ(quartiles({7.0}).median, 7.0);
}

TEST(PairedTimes, RatiosAreOfTheSameTurn) {
  PairedTimes times(2);
  std::vector<size_t> order;
  // A slow spell doubles both times of the second turn: the ratio doesn't see it.
  for (const double slow : {1.0, 2.0, 1.0})
    times.turn([&](size_t m) {
      order.push_back(m);
      return slow * (m == 0 ? 1.0 : 3.0);
    });
  EXPECT_DOUBLE_EQ(times.ratio(0, 1).low, 3.0);
  EXPECT_DOUBLE_EQ(times.ratio(0, 1).high, 3.0);
  EXPECT_DOUBLE_EQ(times.total(0), 4.0);
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 1, 0, 0, 1}));
}

TEST(CodecList, ReadsNamesAndPairs) {
  CacheOptions base;
  base.sink = 7;
  const std::vector<NamedOptions> list = parse_codec_list("turbo4,turbo3/turbo2", base);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].options.key, "turbo4");
  EXPECT_EQ(list[0].options.value, "turbo4");
  EXPECT_EQ(list[1].name, "turbo3/turbo2");
  EXPECT_EQ(list[1].options.key, "turbo3");
  EXPECT_EQ(list[1].options.value, "turbo2");
  EXPECT_EQ(list[1].options.sink, 7);
  for (const char* wrong : {"", "turbo4,", "turbo9", "turbo4,turbo4", "turbo4/turbo3/turbo2"})
    EXPECT_THROW(parse_codec_list(wrong, base), Error) << wrong;
}

// Filled without attending, the cache must be the one that attend() leaves behind.
TEST(FilledCache, HoldsWhatAttendWouldHold) {
  const LayerInput input = gaussian_input(small_layer(), 1300, 5);
  CacheOptions options;
  FilledCache filled(input, options, 1);
  std::vector<float> out(size_t(input.layer.heads) * 64), expected(out.size());
  filled.step(0, out, plain());

  Cache cache(Geometry{{input.layer}}, options);
  const SequenceId sequence = cache.create();
  std::vector<float> rows(size_t(input.tokens) * out.size());
  std::vector<float> queries(rows.size(), 0.0f);
  std::ranges::copy(input.q, queries.end() - std::ptrdiff_t(out.size()));
  const int64_t width = input.layer.kv_heads * 64;
  const SequenceSpan span{sequence, 0, int(input.tokens)};
  attend(cache, 0, {queries.data(), int64_t(out.size()), 64}, {input.k.data(), width, 64}, {input.v.data(), width, 64},
         {&span, 1}, rows.data(), plain());
  std::copy(rows.end() - std::ptrdiff_t(out.size()), rows.end(), expected.begin());
  // Sums over 1,300 tokens in float, in different slices.
  double size = 0.0;
  for (const float x : expected) size = std::max(size, double(std::abs(x)));
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], size * 1300 * 0x1p-24) << i;
}

TEST(FilledCache, UndoBringsTheStepBack) {
  const LayerInput input = gaussian_input(small_layer(), 1024, 6);
  FilledCache filled(input, CacheOptions(), 2);
  std::vector<float> first(size_t(input.layer.heads) * 64), second(first.size());
  const std::vector<float> reference = filled.reference(1, plain());
  filled.step(1, first, plain());
  filled.undo(1);
  filled.step(1, second, plain());
  EXPECT_EQ(first, second);
  EXPECT_LT(relative_rms(first, {reference.begin(), reference.end()}), 1024 * 0x1p-24);
}

// Both against plain doubles. f16 keys and values are off by up to 2^-11 each, and ggml sums values in f16 too.
TEST(GgmlAttention, ComputesTheSameAttention) {
  const LayerInput input = gaussian_input(small_layer(), 512, 7);
  const std::vector<double> exact = exact_attention(input);
  GgmlAttention baseline("f16", input.layer, input.tokens, input.k, input.v, 2, 1);
  for (int copy : {0, 1}) {
    baseline.set_query(copy, input.q);
    baseline.run(copy);
    EXPECT_LT(relative_rms(baseline.output(copy), exact), std::sqrt(512.0) * 0x1p-11) << copy;
  }
  FilledCache ours(input, f16_cache(), 1);
  std::vector<float> out(exact.size());
  ours.step(0, out, plain());
  EXPECT_LT(relative_rms(out, exact), 0x1p-10);
}

TEST(GgmlAttention, RefusesHeadsThatAreNoWholeBlocks) {
  LayerGeometry layer = small_layer();
  layer.key_dim = layer.value_dim = 72;
  const LayerInput input = gaussian_input(layer, 64, 8);
  EXPECT_THROW(GgmlAttention("q4_0", layer, 64, input.k, input.v, 1, 1), Error);
}

TEST(ChildProcess, HandsBackResultsAndErrors) {
  EXPECT_EQ(in_child_process([] { return Json{{"pid_differs", true}}; })["pid_differs"], true);
  const pid_t parent = ::getpid();
  EXPECT_NE(in_child_process([] { return Json(::getpid()); }).get<pid_t>(), parent);
  try {
    in_child_process([]() -> Json { throw Error(ErrorCode::not_found, "no such thing"); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_STREQ(error.what(), "no such thing");
  }
  EXPECT_THROW(in_child_process([]() -> Json {
                 std::raise(SIGKILL);
                 return {};
               }),
               Error);
}

}  // namespace
}  // namespace kvasir::cli
