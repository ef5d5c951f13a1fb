// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Caches in which heads hold different tokens: what selection keeps, attention sees, and nothing else.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "kvasir/error.h"
#include "tests/attention/attend_fixture.h"

namespace kvasir {
namespace {

using Positions = std::vector<std::vector<int32_t>>;

constexpr int kSink = 4;

// Of [sink, length): a random share for each head, another for each seed; head 0 keeps none of them at share 0.
Positions some_of(const Cache& cache, SequenceId sequence, double share, uint64_t seed) {
  Positions chosen(size_t(cache.geometry().layers[0].kv_heads));
  SplitMix random(seed);
  for (size_t head = 0; head < chosen.size(); ++head)
    for (const int32_t position : cache.positions(sequence, 0, int(head)))
      if (position >= kSink && random.uniform() < share * double(head + 1) / double(chosen.size()))
        chosen[head].push_back(position);
  return chosen;
}

// Dense attention of tokens [first, last) in double over what `sees(kv head, token)` says is there.
std::vector<float> dense_over(const Stream& stream, int first, int last, const std::function<bool(int, int)>& sees) {
  const LayerGeometry& layer = stream.layer;
  std::vector<float> out;
  for (int p = first; p < last; ++p)
    for (int h = 0; h < layer.heads; ++h) {
      const int head = h / layer.group();
      std::vector<double> sum(size_t(layer.value_dim), 0.0);
      double total = 0;
      for (int t = 0; t <= p; ++t) {
        if (!sees(head, t) || (layer.window > 0 && t <= p - layer.window)) continue;
        double dot = 0;
        for (int c = 0; c < layer.key_dim; ++c)
          dot += double(stream.q[(size_t(p) * size_t(layer.heads) + size_t(h)) * size_t(layer.key_dim) + size_t(c)]) *
                 double(stream.k[stream.key_at(t, head) + size_t(c)]);
        const double weight = std::exp(double(layer.scale) * dot);
        total += weight;
        for (int c = 0; c < layer.value_dim; ++c)
          sum[size_t(c)] += weight * double(stream.v[stream.value_at(t, head) + size_t(c)]);
      }
      for (const double x : sum) out.push_back(float(x / total));
    }
  return out;
}

// f16 rounds keys by 2^-11 of themselves: scores of about one and values lose no more than this share.
constexpr double kHalfError = 2e-3;

TEST(Selection, AttentionSeesWhatIsKeptAndWhatFollows) {
  const Stream stream(small_layer(6, 2, 64), 700, 3);
  for (const AttentionOptions& options : all_levels())
    for (const int recent : {0, 40}) {
      Cache cache = one_layer_cache(stream.layer, "f16", kSink, recent);
      const SequenceId sequence = cache.create();
      std::vector<std::set<int>> gone(2);
      int length = 0;
      const auto feed_and_compare = [&](int count) {
        const std::vector<float> out = stream.feed(cache, sequence, length, count, options);
        const std::vector<float> expected = dense_over(
            stream, length, length + count, [&](int head, int token) { return !gone[size_t(head)].contains(token); });
        EXPECT_LT(relative_error(out, expected), kHalfError) << length << " " << to_string(options.simd);
        length += count;
      };
      const auto select = [&](double share, uint64_t seed) {
        const Positions kept = some_of(cache, sequence, share, seed);
        cache.keep(sequence, 0, kept);
        for (int head = 0; head < 2; ++head) {
          std::set<int> held(kept[size_t(head)].begin(), kept[size_t(head)].end());
          for (int t = kSink; t < length; ++t)
            if (!held.contains(t)) gone[size_t(head)].insert(t);
          std::vector<int32_t> positions = {0, 1, 2, 3};
          positions.insert(positions.end(), kept[size_t(head)].begin(), kept[size_t(head)].end());
          EXPECT_EQ(cache.positions(sequence, 0, head), positions);
        }
      };
      feed_and_compare(250);
      select(0.5, 1);
      feed_and_compare(1);
      feed_and_compare(130);  // new pages behind the kept ones
      select(0.3, 2);         // from kept pages, contiguous pages and the recent window
      feed_and_compare(200);
      feed_and_compare(1);
      select(0.0, 3);  // sinks alone
      feed_and_compare(1);
      feed_and_compare(70);
      EXPECT_EQ(cache.length(sequence), length);
    }
}

TEST(Selection, ReferencePathSeesTheSame) {
  const Stream stream(small_layer(4, 2, 32), 320, 4);
  AttentionOptions plain, reference;
  reference.reference = true;
  for (const char* kv : {"f16", "turbo4.5,kivi2"}) {
    std::vector<float> outs[2];
    for (int i = 0; i < 2; ++i) {
      Cache build = one_layer_cache(stream.layer, "f16", kSink, 0);
      const SequenceId built = build.create();
      stream.feed(build, built, 0, 200, plain);
      build.keep(built, 0, some_of(build, built, 0.6, 9));
      Cache cache = one_layer_cache(stream.layer, kv, kSink, 0);
      outs[i] = stream.feed(cache, cache.seal(build, built), 200, 120, i == 0 ? plain : reference);
    }
    // The kernels' own error, as in attend_test: 8-bit levels and weights.
    EXPECT_LT(relative_error(outs[0], outs[1]), 1e-2) << kv;
  }
}

TEST(Selection, KeepingEverythingChangesNothing) {
  const Stream stream(small_layer(4, 1, 32), 400, 5);
  Cache cache = one_layer_cache(stream.layer, "f16", kSink, 64);
  const SequenceId all = cache.create();
  stream.feed(cache, all, 0, 300, {});
  const SequenceId kept = cache.fork(all);
  cache.keep(kept, 0, some_of(cache, kept, 2.0, 1));
  EXPECT_EQ(cache.rows(kept, 0, 0, Side::key), cache.rows(all, 0, 0, Side::key));
  EXPECT_EQ(cache.rows(kept, 0, 0, Side::value), cache.rows(all, 0, 0, Side::value));
  const std::vector<float> a = stream.feed(cache, all, 300, 100, {}), b = stream.feed(cache, kept, 300, 100, {});
  EXPECT_LT(relative_error(b, a), 1e-5);  // order of summation
}

TEST(Selection, ReallyFreesPages) {
  const Stream stream(small_layer(4, 2, 64), 1000, 6);
  Cache cache = one_layer_cache(stream.layer, "f16", kSink, 0);
  const SequenceId sequence = cache.create();
  stream.feed(cache, sequence, 0, 1000, {});
  const size_t page = cache.impl().codecs[0].page_bytes();
  Positions kept(2);
  for (int i = 0; i < 65; ++i) kept[0].push_back(kSink + 10 * i);
  cache.keep(sequence, 0, kept);  // two pages for head 0, none for head 1
  EXPECT_EQ(cache.size().pages, 2 * page);
  EXPECT_EQ(cache.size(sequence).pages, 2 * page);
  const SequenceId other = cache.fork(sequence);
  EXPECT_EQ(cache.size().pages, 2 * page) << "forks share kept pages";
  cache.remove(sequence);
  EXPECT_EQ(cache.size().pages, 2 * page);
  cache.remove(other);
  EXPECT_EQ(cache.size().total(), 0u);
}

TEST(Selection, TruncationStaysExact) {
  const Stream stream(small_layer(4, 2, 32), 400, 7);
  Cache cache = one_layer_cache(stream.layer, "f16", kSink, 64);
  const SequenceId sequence = cache.create();
  stream.feed(cache, sequence, 0, 200, {});
  cache.keep(sequence, 0, some_of(cache, sequence, 0.5, 1));
  const SequenceId straight = cache.fork(sequence);
  stream.feed(cache, sequence, 200, 30, {});
  EXPECT_EQ(cache.truncate(sequence, 200), 200) << "the state right after selection";
  EXPECT_EQ(stream.feed(cache, sequence, 200, 90, {}), stream.feed(cache, straight, 200, 90, {}));
  EXPECT_EQ(cache.truncate(sequence, 150), kSink) << "dropped tokens don't come back";
  const std::vector<float> anew = stream.feed(cache, sequence, kSink, 100, {});
  const std::vector<float> dense = stream.dense();
  const std::vector<float> expected(dense.begin() + int64_t(kSink * stream.out_size()),
                                    dense.begin() + int64_t((kSink + 100) * stream.out_size()));
  EXPECT_LT(relative_error(anew, expected), kHalfError);
}

// Sealed once, a sequence attends to what its codec makes of the kept tokens: the same as decoding them says.
TEST(Selection, SealsIntoEveryCodec) {
  for (const int window : {0, 100}) {
    Stream stream(small_layer(4, 2, 64), 420, 8);
    stream.layer.window = window;
    Cache build = one_layer_cache(stream.layer, "f16", kSink, 0);
    const SequenceId built = build.create();
    stream.feed(build, built, 0, 300, {});
    build.keep(built, 0, some_of(build, built, 0.7, 2));
    for (const std::string& kv : codec_names()) {
      Cache cache = one_layer_cache(stream.layer, kv, kSink, 32);
      const SequenceId sealed = cache.seal(build, built);
      EXPECT_EQ(cache.length(sealed), 300);
      Stream decoded = stream;
      std::vector<std::set<int>> held(2);
      for (int head = 0; head < 2; ++head) {
        const std::vector<int32_t> positions = cache.positions(sealed, 0, head);
        EXPECT_EQ(positions, build.positions(built, 0, head)) << kv;
        held[size_t(head)].insert(positions.begin(), positions.end());
        const std::vector<float> k = cache.rows(sealed, 0, head, Side::key);
        const std::vector<float> v = cache.rows(sealed, 0, head, Side::value);
        for (size_t i = 0; i < positions.size(); ++i) {
          std::copy_n(&k[i * 64], 64, &decoded.k[decoded.key_at(positions[i], head)]);
          std::copy_n(&v[i * 64], 64, &decoded.v[decoded.value_at(positions[i], head)]);
        }
      }
      const std::vector<float> out = decoded.feed(cache, sealed, 300, 20, {});
      const std::vector<float> expected = dense_over(
          decoded, 300, 320, [&](int head, int token) { return token >= 300 || held[size_t(head)].contains(token); });
      EXPECT_LT(relative_error(out, expected), 2e-2) << kv << " window " << window;  // integer kernels, as above
    }
  }
}

// What an episode goes through each time it is refreshed: unpacked, some tokens dropped, packed again.
TEST(Selection, SealingAgainRoundsNothing) {
  Stream stream(small_layer(4, 2, 64), 1024, 12);
  for (size_t i = 0; i < stream.k.size(); i += 7) stream.k[i] += 1.5f;  // an offset for the mean to take off
  for (const char* kv : {"q8", "turbo2", "turbo3", "turbo4", "turbo4.5,turbo4"}) {
    Cache build = one_layer_cache(stream.layer, "f16", kSink, 0), cache = one_layer_cache(stream.layer, kv, kSink, 0);
    SequenceId built = build.create();
    stream.feed(build, built, 0, 1024, {});
    SequenceId sealed = cache.seal(build, built);
    std::map<int32_t, std::vector<float>> first[2];
    const auto keys = [&](int head, auto each) {
      const std::vector<int32_t> positions = cache.positions(sealed, 0, head);
      const std::vector<float> rows = cache.rows(sealed, 0, head, Side::key);
      for (size_t i = 0; i < positions.size(); ++i)
        each(positions[i], std::vector<float>(rows.begin() + int64_t(i * 64), rows.begin() + int64_t((i + 1) * 64)));
    };
    for (int head = 0; head < 2; ++head)
      keys(head, [&](int32_t position, std::vector<float> row) { first[head][position] = std::move(row); });
    for (uint64_t round = 0; round < 6; ++round) {
      build.remove(built);
      built = build.seal(cache, sealed);
      build.keep(built, 0, some_of(build, built, 0.95, round));
      const SequenceId again = cache.seal(build, built, sealed);
      cache.remove(sealed);
      sealed = again;
    }
    for (int head = 0; head < 2; ++head) {
      std::vector<float> now, before;
      keys(head, [&](int32_t position, const std::vector<float>& row) {
        now.insert(now.end(), row.begin(), row.end());
        before.insert(before.end(), first[head][position].begin(), first[head][position].end());
      });
      // The way through 16 bits rounds by 2^-11, and its scale again; a code that changed would show as 2^-bits.
      EXPECT_LT(relative_error(now, before), 6 * 2e-3) << kv;
    }
  }
}

TEST(Selection, SlidingWindowsPassOverKeptPages) {
  Stream stream(small_layer(2, 1, 32), 900, 9);
  stream.layer.window = 128;
  Cache build = one_layer_cache(stream.layer, "f16", kSink, 0);
  const SequenceId built = build.create();
  stream.feed(build, built, 0, 300, {});
  Cache cache = one_layer_cache(stream.layer, "f16", kSink, 0);
  const SequenceId sealed = cache.seal(build, built);
  EXPECT_GT(cache.impl().sequence(sealed).layers[0].kept[0].tokens(), 0);
  const std::vector<float> out = stream.feed_in_chunks(cache, sealed, 90, {}, 300, 900);
  const std::vector<float> dense = stream.dense();
  EXPECT_LT(relative_error(out, {dense.begin() + int64_t(300 * stream.out_size()), dense.end()}), kHalfError);
  EXPECT_EQ(cache.impl().sequence(sealed).layers[0].kept[0].tokens(), 0) << "passed over, freed";
}

TEST(Selection, RefusesWhatIsNotThere) {
  const Stream stream(small_layer(4, 2, 32), 200, 10);
  Cache cache = one_layer_cache(stream.layer, "f16", kSink, 0);
  const SequenceId sequence = cache.create();
  stream.feed(cache, sequence, 0, 100, {});
  const size_t before = cache.size().total();
  const std::vector<Positions> wrong = {{{10}},           {{10}, {100}},    {{10}, {3}},       {{10}, {-1}},
                                        {{10}, {20, 20}}, {{10}, {30, 20}}, {{10}, {10}, {10}}};
  for (const Positions& positions : wrong) EXPECT_THROW(cache.keep(sequence, 0, positions), Error);
  EXPECT_THROW(cache.keep(sequence, 1, Positions{{10}, {10}}), Error);
  EXPECT_THROW(cache.keep(sequence + 1, 0, Positions{{10}, {10}}), Error);
  EXPECT_EQ(cache.size().total(), before);
  cache.keep(sequence, 0, Positions{{10}, {20}});
  EXPECT_THROW(cache.keep(sequence, 0, Positions{{11}, {20}}), Error) << "dropped before";

  Cache packed = one_layer_cache(stream.layer, "turbo3", kSink, 0);
  const SequenceId other = packed.create();
  stream.feed(packed, other, 0, 100, {});
  EXPECT_THROW(packed.keep(other, 0, Positions{{10}, {10}}), Error);
  Cache narrow = one_layer_cache(stream.layer, "turbo3", kSink + 1, 0);
  EXPECT_THROW(narrow.seal(cache, sequence), Error);
  CacheOptions poor;
  parse_kv("f16", poor);
  poor.sink = kSink;
  poor.budget = 100;
  Cache small(Geometry{{stream.layer}}, poor);
  EXPECT_THROW(small.seal(cache, sequence), Error);
  EXPECT_EQ(small.size().total(), 0u);
}

}  // namespace
}  // namespace kvasir
