// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A sequence that was saved half-way and restored into another cache goes on bit for bit as one that never stopped.
#include <memory>

#include "codec/fitted_map.h"
#include "snapshot_fixture.h"

namespace kvasir {
namespace {

using test::TemporaryFolder;

AttentionOptions fastest() {
  return all_levels().back();
}

// Feeds `stop` tokens, saves, restores into a cache made by `make`, feeds the rest; compares with one go, in outputs
// and in pages.
template <typename Make>
void expect_same_after_restore(const Stream& stream, int stop, int chunk, Make make, const std::string& what) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.kvasir");
  Cache whole = make();
  const SequenceId never_stopped = whole.create();
  stream.feed(whole, never_stopped, 0, stop, fastest());
  Cache first = make();
  const SequenceId stopped = first.create();
  stream.feed(first, stopped, 0, stop, fastest());
  save_sequence(first, stopped, record_of(stop), path);

  Cache second = make();
  second.create();  // ids need not agree
  const RestoredSequence restored = restore_sequence(second, path, "model-1");
  EXPECT_EQ(restored.record.tokens, record_of(stop).tokens) << what;
  EXPECT_EQ(second.length(restored.sequence), stop) << what;
  EXPECT_EQ(second.size().pages, 0u) << what;
  EXPECT_EQ(second.size().mapped, first.size().pages) << what;
  EXPECT_EQ(second.size().windows, first.size().windows) << what;
  EXPECT_EQ(page_bytes(second, restored.sequence), page_bytes(first, stopped)) << what;

  const auto expected = stream.feed_in_chunks(whole, never_stopped, chunk, fastest(), stop);
  const auto got = stream.feed_in_chunks(second, restored.sequence, chunk, fastest(), stop);
  EXPECT_EQ(got, expected) << what;
  EXPECT_EQ(page_bytes(second, restored.sequence), page_bytes(whole, never_stopped)) << what;
}

TEST(Snapshot, EveryCodecGoesOnBitForBit) {
  for (const std::string& name : codec_names())
    for (int dim : {64, 96}) {
      const Stream stream(small_layer(2, 2, dim), 300, 3);
      for (int stop : dim == 64 ? std::vector<int>{5, 80, 203} : std::vector<int>{170})
        expect_same_after_restore(
            stream, stop, 50, [&] { return one_layer_cache(stream.layer, name, 16, 64); },
            name + " dim " + std::to_string(dim) + " stop " + std::to_string(stop));
    }
}

TEST(Snapshot, SlidingWindowsGoOn) {
  for (const char* name : {"turbo3.5", "f16"}) {
    LayerGeometry layer = small_layer(4, 2, 64);
    layer.window = 100;
    const Stream stream(layer, 700, 4);
    for (int stop : {150, 350, 599})
      expect_same_after_restore(
          stream, stop, 37, [&] { return one_layer_cache(layer, name, 16, 64); }, name);
  }
}

TEST(Snapshot, WindowsOfAnySizeGoOn) {
  const Stream stream(small_layer(4, 2, 64), 400, 5);
  for (const auto& [sink, recent] : {std::pair(0, 0), std::pair(0, 64), std::pair(100, 0), std::pair(500, 10)})
    expect_same_after_restore(
        stream, 250, 15, [&, s = sink, r = recent] { return one_layer_cache(stream.layer, "turbo4.5", s, r); },
        std::to_string(sink) + "," + std::to_string(recent));
}

// What selection has left, in 16 bits and sealed into every codec; head 0 has nothing but its sinks.
TEST(Snapshot, KeptTokensGoOn) {
  const TemporaryFolder folder;
  for (const int window : {0, 200}) {
    LayerGeometry layer = small_layer(4, 2, 64);
    layer.window = window;
    const Stream stream(layer, 600, 9);
    Cache build = one_layer_cache(layer, "f16", 16, 32);
    const SequenceId built = build.create();
    stream.feed(build, built, 0, 300, fastest());
    std::vector<std::vector<int32_t>> kept(2);
    for (const int32_t position : build.positions(built, 0, 1))
      if (position >= 16 && position % 3 != 0) kept[1].push_back(position);
    build.keep(built, 0, kept);
    for (const std::string& kv : codec_names()) {
      Cache cache = one_layer_cache(layer, kv, 16, 32);
      const SequenceId sealed = cache.seal(build, built);
      for (const int length : {300, 450}) {
        if (length > 300) stream.feed(cache, sealed, 300, length - 300, fastest());
        save_sequence(cache, sealed, record_of(length), folder.file("x"));
        Cache other = one_layer_cache(layer, kv, 16, 32);
        const SequenceId restored = restore_sequence(other, folder.file("x"), "model-1").sequence;
        for (int head = 0; head < 2; ++head)
          EXPECT_EQ(other.positions(restored, 0, head), cache.positions(sealed, 0, head)) << kv;
        const SequenceId twin = cache.fork(sealed);
        EXPECT_EQ(stream.feed(other, restored, length, 150, fastest()),
                  stream.feed(cache, twin, length, 150, fastest()))
            << kv << " at " << length << ", window " << window;
        cache.remove(twin);
      }
    }
  }
}

TEST(Snapshot, EmptySequence) {
  const TemporaryFolder folder;
  const Stream stream(small_layer(4, 2, 64), 100, 5);
  Cache cache = one_layer_cache(stream.layer, "turbo3", 16, 64);
  save_sequence(cache, cache.create(), {"model-1", "", {}, ""}, folder.file("x"));
  const RestoredSequence restored = restore_sequence(cache, folder.file("x"), "model-1");
  EXPECT_EQ(cache.length(restored.sequence), 0);
  EXPECT_EQ(cache.size().total(), 0u);
  const SequenceId fresh = cache.create();
  EXPECT_EQ(stream.feed(cache, restored.sequence, 0, 100, fastest()), stream.feed(cache, fresh, 0, 100, fastest()));
}

TEST(Snapshot, ForksOfARestoredSequenceShareItsPages) {
  const TemporaryFolder folder;
  const Stream stream(small_layer(4, 2, 64), 500, 6);
  Cache cache = one_layer_cache(stream.layer, "turbo3.5", 16, 64);
  const SequenceId source = cache.create();
  stream.feed(cache, source, 0, 300, fastest());
  save_sequence(cache, source, record_of(300), folder.file("x"));

  Cache other = one_layer_cache(stream.layer, "turbo3.5", 16, 64);
  const SequenceId restored = restore_sequence(other, folder.file("x"), "model-1").sequence;
  std::filesystem::remove(folder.file("x"));  // the mapping stays
  const size_t mapped = other.size().mapped;
  const SequenceId forked = other.fork(restored);
  EXPECT_EQ(other.size().mapped, mapped);
  EXPECT_EQ(other.size(forked).mapped, mapped);
  other.remove(restored);
  EXPECT_EQ(other.size().mapped, mapped);
  EXPECT_EQ(stream.feed(other, forked, 300, 200, fastest()), stream.feed(cache, source, 300, 200, fastest()));
  // A fork of mixed pages, saved again.
  save_sequence(other, forked, record_of(500), folder.file("y"));
  other.remove(forked);
  EXPECT_EQ(other.size().total(), 0u);
  const SequenceId again = restore_sequence(other, folder.file("y"), "model-1").sequence;
  EXPECT_EQ(page_bytes(other, again), page_bytes(cache, source));
}

TEST(Snapshot, TruncatesAfterRestore) {
  const TemporaryFolder folder;
  const Stream stream(small_layer(4, 2, 64), 500, 7);
  Cache cache = one_layer_cache(stream.layer, "turbo4.5", 16, 64);
  const SequenceId source = cache.create();
  stream.feed(cache, source, 0, 300, fastest());
  save_sequence(cache, source, record_of(300), folder.file("x"));
  for (int tokens : {299, 260, 100, 0}) {
    const SequenceId restored = restore_sequence(cache, folder.file("x"), "model-1").sequence;
    const SequenceId twin = cache.fork(source);
    const int64_t kept = cache.truncate(restored, tokens);
    ASSERT_EQ(kept, cache.truncate(twin, tokens));
    // A truncated sequence is saved like any other.
    save_sequence(cache, restored, record_of(int(kept)), folder.file("y"));
    const SequenceId second = restore_sequence(cache, folder.file("y"), "model-1").sequence;
    const auto expected = stream.feed(cache, twin, int(kept), 400 - int(kept), fastest());
    EXPECT_EQ(stream.feed(cache, restored, int(kept), 400 - int(kept), fastest()), expected) << tokens;
    EXPECT_EQ(stream.feed(cache, second, int(kept), 400 - int(kept), fastest()), expected) << tokens;
    for (SequenceId id : {restored, twin, second}) cache.remove(id);
  }
  EXPECT_EQ(cache.size().mapped, 0u);
}

TEST(Snapshot, MappedPagesTakeNoneOfTheBudget) {
  const TemporaryFolder folder;
  const Stream stream(small_layer(4, 2, 64), 2000, 8);
  Cache cache = one_layer_cache(stream.layer, "turbo4", 16, 64);
  const SequenceId source = cache.create();
  stream.feed(cache, source, 0, 2000, fastest());
  save_sequence(cache, source, record_of(2000), folder.file("x"));
  CacheOptions options = cache.options();
  options.budget = cache.size().windows;
  Cache tight(Geometry{{stream.layer}}, options);
  restore_sequence(tight, folder.file("x"), "model-1");
  EXPECT_EQ(tight.size().windows, options.budget);
  EXPECT_EQ(tight.size().mapped, cache.size().pages);
  EXPECT_EQ(tight.size().total(), cache.size().total());
  options.budget -= 1;
  Cache too_tight(Geometry{{stream.layer}}, options);
  EXPECT_THROW(restore_sequence(too_tight, folder.file("x"), "model-1"), Error);
  EXPECT_EQ(too_tight.size().total(), 0u);
}

TEST(Snapshot, RecordsAnyBytes) {
  const TemporaryFolder folder;
  Cache cache = one_layer_cache(small_layer(4, 2, 64), "q8", 16, 64);
  std::string data;
  for (int i = 0; i < 5000; ++i) data += char(i * 37);
  save_sequence(cache, cache.create(), {"model-1", "name of \xff\xfe bytes", {}, data}, folder.file("x"));
  const SnapshotSummary summary = read_snapshot(folder.file("x"));
  EXPECT_EQ(summary.record.data, data);
  EXPECT_EQ(summary.length, 0);
  EXPECT_EQ(summary.key, "q8");
  EXPECT_EQ(summary.sink, 16);
  EXPECT_EQ(summary.recent, 64);
  EXPECT_EQ(summary.bytes, std::filesystem::file_size(folder.file("x")));
}

TEST(Snapshot, RefusesToSaveWhatIsNotWhole) {
  const TemporaryFolder folder;
  const Stream stream(small_layer(4, 2, 64), 10, 8);
  CacheOptions options;
  options.key = options.value = "q8";
  Cache cache(Geometry{{stream.layer, stream.layer}}, options);
  const SequenceId sequence = cache.create();
  stream.feed(cache, sequence, 0, 10, fastest());  // the first layer only
  EXPECT_THROW(save_sequence(cache, sequence, record_of(10), folder.file("x")), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
  EXPECT_THROW(save_sequence(cache, cache.create(), record_of(10), folder.file("x")), Error);
  EXPECT_THROW(save_sequence(cache, 77, record_of(0), folder.file("x")), Error);
}

// Maps of a calibration: another one is refused though it has the same name.
class ScaledFits : public FittedCodecs {
 public:
  explicit ScaledFits(float scale) : scale_(scale) {}
  FittedCodec fit(std::string_view name, Side side, int) const override {
    FittedCodec fitted;
    fitted.codec.name = name;
    fitted.codec.side = side;
    fitted.codec.dim = 64;
    fitted.codec.map = MapKind::fitted;
    fitted.codec.scale_span = ScaleSpan::token;
    fitted.codec.scale_fit = ScaleFit::least_squares;
    fitted.codec.scale_format = ScaleFormat::log8;
    fitted.codec.segments = {{0, 16, 5, QuantizerKind::lloyd_max}, {16, 48, 3, QuantizerKind::trellis}};
    FittedMap map;
    map.dim = map.mapped_dim = 64;
    map.rows.assign(64 * 64, 0.0f);
    map.dual.assign(64 * 64, 0.0f);
    for (size_t i = 0; i < 64; ++i) {
      map.rows[i * 65] = scale_;
      map.dual[i * 65] = 1 / scale_;
    }
    map.mean.assign(64, 0.25f);
    fitted.maps = std::make_shared<FittedMaps>(2, map);
    if (side == Side::key)
      fitted.turning =
          std::make_shared<const TurningMean>(Rotary{{0, 32, 0.25}, {1, 33, 1e-3 * double(scale_)}}, 64,
                                              std::vector<std::vector<float>>(2, std::vector<float>(64, 3.0f)),
                                              std::vector<std::vector<float>>(2, std::vector<float>(64, 9.0f)));
    return fitted;
  }
  int layers() const override { return 1; }
  std::string description() const override { return "scaled"; }

 private:
  float scale_;
};

Cache fitted_cache(float scale) {
  CacheOptions options;
  options.key = options.value = "spectral3";
  options.sink = 16;
  options.recent = 64;
  options.fitted = std::make_shared<ScaledFits>(scale);
  return Cache(Geometry{{small_layer(4, 2, 64)}}, options);
}

TEST(Snapshot, FittedCodecsGoOnWithTheirOwnMaps) {
  const Stream stream(small_layer(4, 2, 64), 400, 9);
  for (int stop : {70, 257})
    expect_same_after_restore(
        stream, stop, 50, [] { return fitted_cache(1.5f); }, "spectral3");

  const TemporaryFolder folder;
  Cache cache = fitted_cache(1.5f);
  const SequenceId sequence = cache.create();
  stream.feed(cache, sequence, 0, 300, fastest());
  save_sequence(cache, sequence, record_of(300), folder.file("x"));
  Cache other = fitted_cache(1.25f);
  expect_refused(other, folder.file("x"), ErrorCode::invalid_argument, "--calibration");
}

}  // namespace
}  // namespace kvasir
