// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks stand on: that both sides compute the same thing, and that their times are compared in pairs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>
#include <vector>

#include "cli/child_process.h"
#include "cli/codec_list.h"
#include "cli/filled_cache.h"
#include "cli/ggml_attention.h"
#include "cli/ggml_rows.h"
#include "cli/paired_times.h"
#include "cli/text_table.h"
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

// Doubles of every row that the input asks for, [batch, block, heads, dim].
std::vector<double> exact_rows(const LayerInput& input) {
  std::vector<double> all;
  for (int sequence = 0; sequence < input.batch; ++sequence)
    for (int row = 0; row < input.block; ++row) {
      const std::vector<double> one = exact_attention(input, sequence, row);
      all.insert(all.end(), one.begin(), one.end());
    }
  return all;
}

std::vector<float> step_of(FilledCache& cache, int copy, size_t size) {
  std::vector<float> out(size);
  cache.prepare(copy);
  cache.step(out, AttentionOptions());
  cache.undo(copy);
  return out;
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

TEST(TextTable, ColumnsAreAsWideAsTheirWidest) {
  EXPECT_EQ(text_table({{"", "bits", "x"}, {"turbo4", "4.25"}, {"q8", "8.5", "12"}}),
            "        bits   x\nturbo4  4.25\nq8       8.5  12\n");
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
  const LayerInput input = gaussian_input(small_layer(), 1299, 1, 1, 5);
  CacheOptions options;
  FilledCache filled(input, options, 1);
  const std::vector<float> out = step_of(filled, 0, size_t(input.layer.heads) * 64);

  Cache cache(Geometry{{input.layer}}, options);
  const SequenceId sequence = cache.create();
  std::vector<float> rows(size_t(input.tokens()) * out.size());
  std::vector<float> queries(rows.size(), 0.0f);
  std::ranges::copy(input.q, queries.end() - std::ptrdiff_t(out.size()));
  const SequenceSpan span{sequence, 0, int(input.tokens())};
  attend(cache, 0, {queries.data(), int64_t(out.size()), 64}, input.keys(0), input.values(0), {&span, 1}, rows.data(),
         plain());
  const std::vector<float> expected(rows.end() - std::ptrdiff_t(out.size()), rows.end());
  // Sums over 1,300 tokens in float, in different slices.
  double size = 0.0;
  for (const float x : expected) size = std::max(size, double(std::abs(x)));
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], size * 1300 * 0x1p-24) << i;
}

TEST(FilledCache, UndoBringsTheStepBack) {
  for (const int block : {1, 150}) {
    const LayerInput input = gaussian_input(small_layer(), 1023, block, 1, 6);
    FilledCache filled(input, CacheOptions(), 2);
    const size_t size = size_t(input.rows()) * size_t(input.layer.heads) * 64;
    const CacheSize before = filled.cache().size();
    const std::vector<float> first = step_of(filled, 1, size);
    filled.prepare(1);
    filled.append(1);
    filled.undo(1);
    EXPECT_EQ(first, step_of(filled, 1, size)) << block;
    EXPECT_EQ(filled.cache().size().pages, before.pages) << block;
  }
}

// Every row of a block and every sequence of a batch against doubles over the same pages.
TEST(FilledCache, ReferenceIsOfThatRow) {
  for (const auto& [block, batch] : {std::pair{150, 1}, std::pair{1, 3}}) {
    const LayerInput input = gaussian_input(small_layer(), 700, block, batch, 7);
    FilledCache filled(input, CacheOptions(), 1);
    const size_t size = size_t(input.layer.heads) * 64;
    const std::vector<float> out = step_of(filled, 0, size_t(input.rows()) * size);
    for (int sequence = 0; sequence < batch; ++sequence)
      for (const int row : {0, block / 2, block - 1}) {
        const std::vector<float> reference = filled.reference(sequence, row, plain());
        const auto from = out.begin() + std::ptrdiff_t((sequence * block + row) * int64_t(size));
        EXPECT_LT(
            relative_rms(std::vector<float>(from, from + std::ptrdiff_t(size)), {reference.begin(), reference.end()}),
            1024 * 0x1p-24)
            << sequence << " " << row;
      }
  }
}

// Both against plain doubles. f16 keys and values are off by up to 2^-11 each, and ggml sums values in f16 too.
TEST(GgmlAttention, ComputesTheSameAttention) {
  for (const auto& [block, batch] : {std::pair{1, 1}, std::pair{1, 3}, std::pair{70, 1}}) {
    const LayerInput input = gaussian_input(small_layer(), 511, block, batch, 7);
    const std::vector<double> exact = exact_rows(input);
    GgmlAttention baseline("f16", input, 2, 1);
    for (const int copy : {0, 1}) {
      baseline.run(copy);
      ASSERT_EQ(baseline.output(copy).size(), exact.size());
      EXPECT_LT(relative_rms(baseline.output(copy), exact), std::sqrt(512.0) * 0x1p-11) << block << " " << batch;
    }
    FilledCache ours(input, f16_cache(), 1);
    EXPECT_LT(relative_rms(step_of(ours, 0, exact.size()), exact), 0x1p-10) << block << " " << batch;
  }
}

TEST(GgmlAttention, RefusesHeadsThatAreNoWholeBlocks) {
  LayerGeometry layer = small_layer();
  layer.key_dim = layer.value_dim = 72;
  const LayerInput input = gaussian_input(layer, 63, 1, 1, 8);
  EXPECT_THROW(GgmlAttention("q4_0", input, 1, 1), Error);
}

// Half a step of 127 of the block's largest magnitude, and of 8.
TEST(GgmlRows, DecodeIsNearWhatWasEncoded) {
  const LayerInput input = gaussian_input(small_layer(), 31, 1, 1, 9);
  for (const auto& [type, steps] : {std::pair{"f16", 2048.0}, std::pair{"q8_0", 127.0}, std::pair{"q4_0", 8.0}}) {
    const GgmlRows rows(type);
    std::vector<std::byte> bytes(rows.bytes(int64_t(input.k.size())));
    rows.encode(input.k, bytes.data());
    const std::vector<float> decoded = rows.decode(bytes.data(), int64_t(input.k.size()));
    float most = 0;
    for (const float x : input.k) most = std::max(most, std::abs(x));
    // q4_0's levels are -8 to 7: at one end it's a whole step. Scales are f16.
    for (size_t i = 0; i < decoded.size(); ++i)
      ASSERT_NEAR(decoded[i], input.k[i], (1 + 0x1p-9) * double(most) / steps) << type << " " << i;
  }
  EXPECT_THROW(GgmlRows("q9_0"), Error);
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
