// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// attend() as a whole: against exact attention, against its own reference, and the invariances of design (chunking,
// batching, forks, truncation).
#include <gtest/gtest.h>

#include <utility>

#include "attend_fixture.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr double kHalfEpsilon = 0x1p-11;

AttentionOptions reference_options() {
  AttentionOptions options;
  options.threads = 2;
  options.reference = true;
  return options;
}

TEST(Attend, F16MatchesExactAttention) {
  // Rounding K to f16 moves each score by |q||k| eps; N(0,1) data keeps that near eps, V adds eps of its own.
  for (int window : {0, 100})
    for (float softcap : {0.0f, 5.0f})
      for (bool sinks : {false, true}) {
        LayerGeometry layer = small_layer(6, 2, 64);
        layer.window = window;
        layer.softcap = softcap;
        if (sinks) layer.sink_logits = {1.0f, -2.0f, 0.5f, 3.0f, 0.0f, 1.5f};
        const Stream stream(layer, 330, 11);
        const std::vector<float> expected = stream.dense();
        auto levels = all_levels();
        levels.push_back(reference_options());
        for (const AttentionOptions& options : levels)
          for (int chunk : {330, 130, 7}) {
            Cache cache = one_layer_cache(layer, "f16", 16, 64);
            const auto got = stream.feed_in_chunks(cache, cache.create(), chunk, options);
            EXPECT_LT(relative_error(got, expected), 4 * kHalfEpsilon)
                << "window " << window << " softcap " << softcap << " sinks " << sinks << " chunk " << chunk << " "
                << to_string(options.simd) << (options.reference ? " reference" : "");
          }
      }
}

// Kernels against the double path on the same packed bytes: only the kernel's own arithmetic differs.
TEST(Attend, KernelsMatchReferenceOnEveryCodecAndHeadDim) {
  for (const std::string& name : codec_names())
    for (int dim : {64, 72, 80, 96, 112, 128, 160, 192, 256}) {
      const Stream stream(small_layer(2, 1, dim), 192, uint64_t(dim));  // whole blocks: all tiles
      Cache exact = one_layer_cache(stream.layer, name, 8, 32);
      const auto expected = stream.feed(exact, exact.create(), 0, stream.tokens, reference_options());
      for (const AttentionOptions& options : all_levels())
        for (int chunk : {stream.tokens, 1}) {
          Cache cache = one_layer_cache(stream.layer, name, 8, 32);
          const auto got = stream.feed_in_chunks(cache, cache.create(), chunk, options);
          // Queries and weights carry 14 bits in the integer path; floats carry 24 in the tiles, and a dot
          // product of dim terms loses sqrt(dim) of its last bit.
          EXPECT_LT(relative_error(got, expected), chunk == 1 ? 0x1p-11 : 0x1p-20 * std::sqrt(double(dim)))
              << name << " dim " << dim << " chunk " << chunk << " " << to_string(options.simd);
        }
    }
}

TEST(Attend, CodecErrorShrinksWithBits) {
  const Stream stream(small_layer(4, 2, 128), 1000, 5);
  const std::vector<float> expected = stream.dense();
  double last = 1e9;
  for (const char* name : {"turbo2", "turbo3", "turbo4", "q8", "f16"}) {
    Cache cache = one_layer_cache(stream.layer, name, 16, 64);
    const double error =
        relative_error(stream.feed(cache, cache.create(), 0, stream.tokens, all_levels().back()), expected);
    EXPECT_LT(error, 0.7 * last) << name;
    last = error;
  }
}

TEST(Attend, ChunkingChangesNothing) {
  // A window of 100 drops pages soon after they are packed, the first of a head, which sorted its channels, as well.
  for (const auto& [name, window] : {std::pair("turbo3", 0),
                                     {"kivi2", 0},
                                     {"q8", 0},
                                     {"turbo2.5", 0},
                                     {"turbo2.5", 100},
                                     {"turbo3", 100},
                                     {"turboprod3", 0}}) {
    LayerGeometry layer = small_layer(3, 1, 64);
    layer.window = window;
    const Stream stream(layer, 700, 21);
    const AttentionOptions options = all_levels().back();
    Cache whole = one_layer_cache(stream.layer, name, 10, 50);
    const SequenceId first = whole.create();
    const auto expected = stream.feed(whole, first, 0, stream.tokens, options);
    for (int chunk : {1, 7, 63, 64, 65, 128, 333}) {
      Cache cache = one_layer_cache(stream.layer, name, 10, 50);
      const SequenceId sequence = cache.create();
      const auto got = stream.feed_in_chunks(cache, sequence, chunk, options);
      EXPECT_EQ(page_bytes(cache, sequence), page_bytes(whole, first)) << name << " " << window << " chunk " << chunk;
      EXPECT_LT(relative_error(got, expected), 0x1p-11) << name << " chunk " << chunk;
      EXPECT_EQ(cache.size().total(), whole.size().total());
    }
  }
}

TEST(Attend, NeighboursChangeNothing) {
  const LayerGeometry layer = small_layer(4, 2, 64);
  const AttentionOptions options = all_levels().back();
  const Stream a(layer, 400, 1);
  Stream b(layer, 300, 2);
  for (float& x : b.k) x *= 1000;
  Cache alone = one_layer_cache(layer, "turbo3", 16, 64);
  const SequenceId only = alone.create();
  const auto expected = a.feed(alone, only, 0, a.tokens, options);

  // The same tokens in one batch behind a loud neighbour, with rows of neither in between.
  Cache cache = one_layer_cache(layer, "turbo3", 16, 64);
  const SequenceId loud = cache.create(), quiet = cache.create();
  const auto join = [&](const std::vector<float>& x, const std::vector<float>& y, int width) {
    std::vector<float> all(x);
    all.insert(all.end(), size_t(width), NAN);
    all.insert(all.end(), y.begin(), y.end());
    return all;
  };
  const auto q = join(b.q, a.q, 4 * 64), k = join(b.k, a.k, 2 * 64), v = join(b.v, a.v, 2 * 64);
  const SequenceSpan spans[] = {{loud, 0, b.tokens}, {quiet, b.tokens + 1, a.tokens}};
  std::vector<float> out(size_t(b.tokens + 1 + a.tokens) * a.out_size());
  attend(cache, 0, Stream::view(q, 4, 64, 0), Stream::view(k, 2, 64, 0), Stream::view(v, 2, 64, 0), spans, out.data(),
         options);
  EXPECT_EQ(page_bytes(cache, quiet), page_bytes(alone, only));
  const std::vector<float> got(out.end() - std::ptrdiff_t(expected.size()), out.end());
  EXPECT_EQ(got, expected);
}

// In a window of 100 the page that sorted the channels is gone by the time of the fork.
void expect_forks_to_diverge(const std::string& name, int window) {
  LayerGeometry layer = small_layer(4, 2, 64);
  layer.window = window;
  const AttentionOptions options = all_levels().back();
  const Stream a(layer, 600, 3), b(layer, 200, 4);
  Cache cache = one_layer_cache(layer, name, 16, 64);
  const SequenceId trunk = cache.create();
  a.feed(cache, trunk, 0, 400, options);
  const size_t before = cache.size().pages;
  const SequenceId branch = cache.fork(trunk);
  EXPECT_EQ(cache.size().pages, before) << "pages are shared";
  const auto other = b.feed(cache, branch, 0, 200, options);
  const auto rest = a.feed(cache, trunk, 400, 200, options);

  // Dense references: the trunk as if never forked, the branch as if fed alone.
  Cache fresh = one_layer_cache(layer, name, 16, 64);
  const SequenceId s = fresh.create(), t = fresh.create();
  a.feed(fresh, s, 0, 400, options);
  a.feed(fresh, t, 0, 400, options);
  EXPECT_EQ(rest, a.feed(fresh, s, 400, 200, options));
  EXPECT_EQ(other, b.feed(fresh, t, 0, 200, options));
  EXPECT_EQ(page_bytes(cache, trunk), page_bytes(fresh, s));
  EXPECT_EQ(page_bytes(cache, branch), page_bytes(fresh, t));

  cache.remove(trunk);
  EXPECT_EQ(page_bytes(cache, branch), page_bytes(fresh, t)) << "the branch outlives its trunk";
  cache.remove(branch);
  EXPECT_EQ(cache.size().total(), 0u);
}

TEST(Attend, ForkSharesPagesAndDiverges) {
  expect_forks_to_diverge("turbo4", 0);
  expect_forks_to_diverge("turbo2.5", 0);
  expect_forks_to_diverge("turbo2.5", 100);
}

// Heads whose keys and values differ in size, behind maps that make two channels of one or sort them.
TEST(Attend, UnequalSidesMatchTheReference) {
  LayerGeometry layer = small_layer(4, 2, 96);
  layer.value_dim = 64;
  const Stream stream(layer, 300, 31);
  for (const char* name : {"turboprod3,turbo2.5", "turbo2.5,turboprod2", "turbo3,kivi2"}) {
    Cache exact = one_layer_cache(layer, name, 8, 32);
    const auto expected = stream.feed(exact, exact.create(), 0, stream.tokens, reference_options());
    for (const AttentionOptions& options : all_levels())
      for (int chunk : {stream.tokens, 1}) {
        Cache cache = one_layer_cache(layer, name, 8, 32);
        EXPECT_LT(relative_error(stream.feed_in_chunks(cache, cache.create(), chunk, options), expected), 0x1p-11)
            << name << " chunk " << chunk << " " << to_string(options.simd);
      }
  }
}

TEST(Attend, AQueryThatIsNoNumberGivesNone) {
  const LayerGeometry layer = small_layer(2, 1, 64);
  Stream stream(layer, 300, 32);
  stream.q[size_t(280) * 2 * 64 + 5] = NAN;  // token 280, first head
  for (const AttentionOptions& options : all_levels())
    for (int chunk : {stream.tokens, 1}) {
      Cache cache = one_layer_cache(layer, "turbo4", 16, 64);
      const auto out = stream.feed_in_chunks(cache, cache.create(), chunk, options);
      EXPECT_TRUE(std::isnan(out[size_t(280) * 2 * 64])) << to_string(options.simd) << " chunk " << chunk;
      EXPECT_TRUE(std::isfinite(out[size_t(280) * 2 * 64 + 64])) << "the other head never hears of it";
      EXPECT_TRUE(std::isfinite(out[size_t(281) * 2 * 64]));
    }
}

TEST(Attend, SequencesAreReservedTogether) {
  const LayerGeometry layer = small_layer(4, 2, 64);
  CacheOptions options;
  options.sink = 16;
  options.recent = 64;
  options.budget = plan_size(Geometry{{layer}}, options, 600).total() * 3 / 2;
  Cache cache(Geometry{{layer}}, options);
  const Growth growth[] = {{cache.create(), 600}, {cache.create(), 600}};
  EXPECT_NO_THROW(cache.reserve({growth, 1}));
  EXPECT_THROW(cache.reserve(growth), Error);
}

TEST(Attend, TruncateIsAsIfItHadNeverBeen) {
  const AttentionOptions options = all_levels().back();
  for (const auto& [name, window] : {std::pair("turbo3", 0), {"turbo3", 128}, {"turbo2.5", 0}, {"turbo2.5", 128}})
    for (int length : {20, 90, 200, 300, 511, 512, 513})
      for (int target : {0, 5, 16, 70, 100, 190, 256, 290, 300, 440, 500, 512}) {
        if (target > length) continue;
        LayerGeometry layer = small_layer(2, 1, 64);
        layer.window = window;
        const Stream a(layer, 520, 6), b(layer, 520, 7);
        Cache cache = one_layer_cache(layer, name, 16, 64);
        const SequenceId sequence = cache.create();
        a.feed(cache, sequence, 0, length, options);
        const int64_t kept = cache.truncate(sequence, target);
        ASSERT_LE(kept, target);
        ASSERT_EQ(kept, cache.length(sequence));
        if (target / kPageTokens == (length - 1) / kPageTokens || target <= 16) {
          EXPECT_EQ(kept, target) << "the last block and the sink window are exact";
        }
        const auto got = b.feed(cache, sequence, 0, 200, options);
        Cache fresh = one_layer_cache(layer, name, 16, 64);
        const SequenceId other = fresh.create();
        if (kept > 0) a.feed(fresh, other, 0, int(kept), options);
        EXPECT_LT(relative_error(got, b.feed(fresh, other, 0, 200, options)), 0x1p-17)
            << "window " << window << " length " << length << " target " << target << " kept " << kept;
        EXPECT_EQ(page_bytes(cache, sequence), page_bytes(fresh, other));
      }
}

TEST(Attend, NonFiniteInputStaysWhereItIs) {
  const LayerGeometry layer = small_layer(4, 2, 64);
  const float bad[] = {INFINITY, -INFINITY, NAN, 1e5f, -1e38f, 1e-42f, 0.0f};
  for (const std::string& name : codec_names())
    for (const AttentionOptions& options : all_levels()) {
      Stream stream(layer, 300, 8);
      for (int i = 0; i < 7; ++i) {
        stream.k[stream.key_at(100 + i, 0) + 3] = bad[i];
        stream.v[stream.value_at(100 + i, 0) + 5] = bad[i];
      }
      std::fill_n(&stream.k[stream.key_at(120, 0)], 64, 0.0f);
      std::fill_n(&stream.v[stream.value_at(120, 0)], 64, 7.0f);
      Cache cache = one_layer_cache(layer, name, 16, 64);
      const auto out = stream.feed(cache, cache.create(), 0, stream.tokens, options);
      for (float x : out) ASSERT_TRUE(std::isfinite(x)) << name << " " << to_string(options.simd);
      EXPECT_EQ(cache.stats().nonfinite, name == "bf16" ? 6u : 10u) << name;
      // The other KV head never hears of it.
      Stream clean(layer, 300, 8);
      Cache other = one_layer_cache(layer, name, 16, 64);
      const auto expected = clean.feed(other, other.create(), 0, clean.tokens, options);
      for (int t = 0; t < clean.tokens; ++t)
        for (int h = 2; h < 4; ++h)
          for (int c = 0; c < 64; ++c) {
            const size_t i = (size_t(t) * 4 + size_t(h)) * 64 + size_t(c);
            ASSERT_EQ(out[i], expected[i]) << name << " token " << t;
          }
    }
}

// What the key biases of Qwen2 do: a constant of norm 0 .. 921 on a few channels of every key.
TEST(Attend, ConstantKeyOffsetsAreHarmless) {
  for (const char* name : {"turbo4", "turbo3", "kivi4"})
    for (int channels : {3, 8}) {
      double plain = 0;
      for (double norm : {0.0, 22.0, 600.0, 921.0}) {
        Stream stream(small_layer(2, 2, 64), 500, 9);
        const std::vector<float> expected = stream.dense();  // softmax doesn't see a constant: the same for all norms
        for (int t = 0; t < stream.tokens; ++t)
          for (int h = 0; h < 2; ++h)
            for (int c = 0; c < channels; ++c)
              stream.k[stream.key_at(t, h) + size_t(7 * c + 2)] += float(norm / std::sqrt(double(channels)));
        // The window is f16: keep it out of the comparison's way by asking only for late tokens and a short window.
        Cache cache = one_layer_cache(stream.layer, name, 0, 0);
        Cache f16 = one_layer_cache(stream.layer, "f16", 0, 0);
        const AttentionOptions options = all_levels().back();
        const auto got = stream.feed(cache, cache.create(), 0, stream.tokens, options);
        const double floor = relative_error(stream.feed(f16, f16.create(), 0, stream.tokens, options), expected);
        const double error = relative_error(got, expected);
        if (norm == 0) plain = error;
        EXPECT_LT(error, 3 * std::max(plain, floor))
            << name << " norm " << norm << " channels " << channels << " plain " << plain << " f16 " << floor;
        if (norm > 100 && std::string(name) != "kivi4") {
          EXPECT_GT(cache.stats().key_offset_ratio[0], 10.0f);
        }
      }
    }
}

TEST(Attend, FullPoolLeavesTheSequenceAlone) {
  const LayerGeometry layer = small_layer(4, 2, 64);
  const Stream stream(layer, 900, 10);
  const AttentionOptions options = all_levels().back();
  CacheOptions cache_options;
  cache_options.sink = 16;
  cache_options.recent = 64;
  cache_options.budget = plan_size(Geometry{{layer}}, cache_options, 600).total();
  Cache cache(Geometry{{layer}}, cache_options);
  const SequenceId sequence = cache.create();
  stream.feed(cache, sequence, 0, 500, options);
  const auto before = page_bytes(cache, sequence);
  EXPECT_THROW(cache.reserve(sequence, 400), Error);
  EXPECT_THROW(stream.feed(cache, sequence, 500, 400, options), Error);
  EXPECT_EQ(cache.length(sequence), 500);
  EXPECT_EQ(page_bytes(cache, sequence), before);
  stream.feed(cache, sequence, 500, 60, options);
  EXPECT_EQ(cache.length(sequence), 560);
  EXPECT_THROW(stream.feed(cache, cache.create(), 0, 300, options), Error);
}

// What `kvasir plan` says is what the pool hands out, for MHA, GQA, MQA, windows, odd head dims and unequal sides.
TEST(Attend, PlanIsWhatThePoolHandsOut) {
  std::vector<LayerGeometry> shapes = {small_layer(4, 4, 64),  small_layer(6, 2, 80), small_layer(8, 1, 128),
                                       small_layer(4, 1, 256), small_layer(2, 2, 96), small_layer(4, 2, 72)};
  shapes[3].window = 128;
  shapes[4].value_dim = 64;
  for (const LayerGeometry& shape : shapes)
    for (const char* kv : {"f16", "turbo3", "turbo4,kivi2", "q8"})
      for (int tokens : {1, 100, 700}) {
        const Stream stream(shape, tokens, 12);
        Cache cache = one_layer_cache(shape, kv, 16, 64);
        stream.feed_in_chunks(cache, cache.create(), 100, all_levels().back());
        const CacheSize plan = plan_size(cache.geometry(), cache.options(), tokens);
        EXPECT_EQ(plan.total(), cache.impl().pool.used()) << kv << " dim " << shape.key_dim << " tokens " << tokens;
        EXPECT_EQ(plan.total(), cache.size().total());
        EXPECT_EQ(plan.bytes_f16, cache.size().bytes_f16);
        EXPECT_LT(double(cache.impl().pool.reserved()), 1.02 * double(plan.total()) + 512 * 1024);
      }
}

TEST(Attend, WrongRequestsAreNamed) {
  const LayerGeometry layer = small_layer(4, 2, 64);
  const Stream stream(layer, 10, 10);
  Cache cache = one_layer_cache(layer, "turbo4", 16, 64);
  const SequenceId sequence = cache.create();
  EXPECT_THROW(stream.feed(cache, sequence + 1, 0, 10, all_levels()[0]), Error);
  const SequenceSpan twice[] = {{sequence, 0, 5}, {sequence, 5, 5}};
  std::vector<float> out(10 * stream.out_size());
  EXPECT_THROW(attend(cache, 0, Stream::view(stream.q, 4, 64, 0), Stream::view(stream.k, 2, 64, 0),
                      Stream::view(stream.v, 2, 64, 0), twice, out.data(), all_levels()[0]),
               Error);
  EXPECT_EQ(cache.length(sequence), 0);
}

}  // namespace
}  // namespace kvasir
