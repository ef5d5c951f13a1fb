// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes, options and the pool. What a cache does with tokens is tested through attend (tests/attention).
#include "kvasir/cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cache/cache_impl.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

Geometry uniform(int layers, int heads, int kv_heads, int dim, int window = 0) {
  LayerGeometry layer;
  layer.heads = heads;
  layer.kv_heads = kv_heads;
  layer.key_dim = layer.value_dim = dim;
  layer.window = window;
  return {std::vector<LayerGeometry>(size_t(layers), layer)};
}

TEST(PackedBoundary, IsAFunctionOfTheAlignedBlock) {
  for (int sink : {0, 4, 16, 64})
    for (int recent : {0, 1, 64, 100, 256})
      for (int64_t p = 0; p < 2000; ++p) {
        const int64_t boundary = packed_boundary(p, sink, recent);
        EXPECT_EQ(boundary, packed_boundary(p / 64 * 64, sink, recent));
        EXPECT_EQ((boundary - sink) % 64, 0);
        EXPECT_TRUE(boundary == sink || boundary <= p / 64 * 64 - recent) << "at least W tokens stay in 16 bit";
        EXPECT_LT(p / 64 * 64 - boundary, std::max<int64_t>(sink, 0) + recent + 64) << "and fewer than W + P";
      }
}

TEST(Options, KvGrammar) {
  CacheOptions options;
  parse_kv("turbo4,turbo2", options);
  EXPECT_EQ(options.key, "turbo4");
  EXPECT_EQ(options.value, "turbo2");
  parse_kv("q8", options);
  EXPECT_EQ(options.key, "q8");
  EXPECT_EQ(options.value, "q8");
  for (const char* bad :
       {"", ",", "turbo4,", ",turbo4", "turbo4,turbo3,turbo2", "turbo9", "turbo3:spin=1", "TURBO4", "turbo4 "})
    EXPECT_THROW(parse_kv(bad, options), Error) << bad;
}

TEST(Options, LayerGrammar) {
  CacheOptions options;
  parse_kv_layers("0-1,-2--1:q8;5:turbo4,turbo2", options);
  ASSERT_EQ(options.overrides.size(), 3u);
  EXPECT_EQ(options.overrides[0].first, 0);
  EXPECT_EQ(options.overrides[0].last, 1);
  EXPECT_EQ(options.overrides[1].first, -2);
  EXPECT_EQ(options.overrides[1].last, -1);
  EXPECT_EQ(options.overrides[2].key, "turbo4");
  EXPECT_EQ(options.overrides[2].value, "turbo2");
  for (const char* bad : {"", "q8", "0:", ":q8", "a-b:q8", "0-:q8", "0-1q:q8", "0,:q8", "0:q8;"})
    EXPECT_THROW(parse_kv_layers(bad, options), Error) << bad;
  CacheOptions outside;
  parse_kv_layers("0-30:q8", outside);
  EXPECT_THROW(Cache(uniform(30, 9, 3, 64), outside), Error);
  CacheOptions negative;
  negative.recent = -1;
  EXPECT_THROW(Cache(uniform(2, 2, 1, 64), negative), Error);
}

TEST(Options, OverridesPickTheCodec) {
  CacheOptions options;
  options.key = options.value = "turbo3";
  parse_kv_layers("0-1,-1:q8", options);
  const Cache cache(uniform(6, 2, 1, 64), options);
  for (int layer = 0; layer < 6; ++layer)
    EXPECT_EQ(cache.codec(layer, Side::key).name, layer <= 1 || layer == 5 ? "q8" : "turbo3") << layer;
}

TEST(Plan, MaxTokensIsTheLastThatFits) {
  for (const Geometry& geometry : {uniform(30, 9, 3, 64), uniform(18, 4, 1, 256, 512)}) {
    CacheOptions options;
    for (size_t budget : {size_t(1) << 20, size_t(64) << 20, size_t(1) << 30}) {
      const int64_t most = plan_max_tokens(geometry, options, budget);
      if (most == 0) continue;
      EXPECT_LE(plan_size(geometry, options, most).total(), budget);
      if (geometry.layers[0].window == 0) {
        EXPECT_GT(plan_size(geometry, options, most + 64).total(), budget);
      }
    }
  }
}

TEST(Pool, CountsWhatItHandsOut) {
  Pool pool(1000);
  std::byte* a = pool.allocate(400);
  std::byte* b = pool.allocate(600);
  EXPECT_EQ(pool.used(), 1000u);
  EXPECT_THROW(pool.allocate(1), Error);
  pool.release(a, 400);
  EXPECT_EQ(pool.used(), 600u);
  EXPECT_TRUE(pool.fits(400));
  pool.release(b, 600);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.reserved(), 0u) << "empty slabs go back to the system";
}

TEST(Pool, RemembersItsPeak) {
  Pool pool(0);
  std::byte* first = pool.allocate(100);
  std::byte* second = pool.allocate(200);
  pool.release(first, 100);
  EXPECT_EQ(pool.peak(), 300u);
  pool.restart_peak();
  EXPECT_EQ(pool.peak(), 200u);
  pool.release(second, 200);
  EXPECT_EQ(pool.peak(), 200u);
}

TEST(Pool, SlotsAreAlignedAndDistinct) {
  Pool pool(0);
  std::vector<std::byte*> slots;
  for (int i = 0; i < 300; ++i) {
    slots.push_back(pool.allocate(4352));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slots.back()) % 64, 0u);
  }
  std::sort(slots.begin(), slots.end());
  for (size_t i = 1; i < slots.size(); ++i) EXPECT_GE(slots[i] - slots[i - 1], 4352);
  EXPECT_LT(double(pool.reserved()), 1.2 * double(pool.used()));
  for (std::byte* slot : slots) pool.release(slot, 4352);
}

}  // namespace
}  // namespace kvasir
