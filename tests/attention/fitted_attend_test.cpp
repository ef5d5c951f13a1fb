// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// attend() over codecs whose maps are fitted: not orthogonal, different for each head, with a mean, with channels that
// are dropped, with 8-bit scales and clipping, and keys that are stored without a mean that turns.
#include <gtest/gtest.h>

#include <memory>

#include "attend_fixture.h"
#include "codec/fitted_map.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// T = D R with R a random rotation and D a scaling: T^-T = D^-1 R. Only the first `kept` channels are stored.
FittedMap random_map(int dim, int kept, bool with_mean, SplitMix& random) {
  FittedMap map;
  map.dim = dim;
  map.mapped_dim = kept;
  std::vector<std::vector<double>> rows;
  for (int j = 0; j < dim; ++j) {
    std::vector<double> row(static_cast<size_t>(dim));
    for (double& x : row) x = random.normal();
    for (const auto& other : rows) {
      double dot = 0;
      for (int c = 0; c < dim; ++c) dot += row[size_t(c)] * other[size_t(c)];
      for (int c = 0; c < dim; ++c) row[size_t(c)] -= dot * other[size_t(c)];
    }
    double norm = 0;
    for (double x : row) norm += x * x;
    for (double& x : row) x /= std::sqrt(norm);
    rows.push_back(row);
  }
  for (int j = 0; j < kept; ++j) {
    const double stretch = std::exp(0.3 * random.normal());
    for (double x : rows[size_t(j)]) map.rows.push_back(float(x * stretch));
    for (double x : rows[size_t(j)]) map.dual.push_back(float(x / stretch));
  }
  if (with_mean)
    for (int c = 0; c < dim; ++c) map.mean.push_back(float(random.normal()));
  return map;
}

// Halves of 3/4 of the channels turn; large means, and a larger one of the first key.
std::shared_ptr<const TurningMean> turning_mean(int dim) {
  Rotary rotary;
  const int pairs = dim * 3 / 8;
  for (int i = 0; i < pairs; ++i) rotary.push_back({i, i + pairs, std::pow(1e4, -double(i) / pairs)});
  SplitMix random(17);
  std::vector<std::vector<float>> means(2, std::vector<float>(size_t(dim))), firsts = means;
  for (auto& mean : means)
    for (float& x : mean) x = float(4 * random.normal());
  for (auto& first : firsts)
    for (float& x : first) x = float(8 * random.normal());
  return std::make_shared<const TurningMean>(std::move(rotary), dim, std::move(means), std::move(firsts));
}

// Keys that go round with their position, as a bias before RoPE has them.
Stream turning_stream(int tokens, uint64_t seed) {
  Stream stream(small_layer(6, 2, 64), tokens, seed);
  const auto turning = turning_mean(64);
  std::vector<float> mean(64);
  for (int t = 0; t < tokens; ++t)
    for (int h = 0; h < 2; ++h) {
      turning->of_position(h, t, mean.data());
      for (size_t c = 0; c < 64; ++c) stream.k[stream.key_at(t, h) + c] += mean[c];
    }
  return stream;
}

struct Shape {
  const char* name;
  int dim;
  std::vector<Segment> segments;
  ScaleFormat format;
  ScaleFit fit;
  bool mean;
  float clip;
  bool turning = false;
};

class RandomFits : public FittedCodecs {
 public:
  explicit RandomFits(Shape shape) : shape_(std::move(shape)) {}
  FittedCodec fit(std::string_view name, Side side, int) const override {
    FittedCodec fitted;
    Codec& codec = fitted.codec;
    codec.name = name;
    codec.side = side;
    codec.dim = shape_.dim;
    codec.map = MapKind::fitted;
    codec.scale_span = ScaleSpan::token;
    codec.scale_fit = shape_.fit;
    codec.scale_format = shape_.format;
    codec.segments = shape_.segments;
    SplitMix random(side == Side::key ? 5 : 6);
    auto maps = std::make_shared<FittedMaps>();
    for (int head = 0; head < 2; ++head) {
      maps->push_back(random_map(shape_.dim, codec.mapped_dim(), shape_.mean && side == Side::key, random));
      maps->back().clip = shape_.clip;
    }
    fitted.maps = std::move(maps);
    if (shape_.turning && side == Side::key) fitted.turning = turning_mean(shape_.dim);
    return fitted;
  }
  int layers() const override { return 1; }
  std::string description() const override { return "random maps"; }

 private:
  Shape shape_;
};

std::vector<Shape> shapes() {
  using enum QuantizerKind;
  return {
      {"whole", 64, {{0, 64, 4, lloyd_max}}, ScaleFormat::log8, ScaleFit::least_squares, true, 0},
      {"classes",
       64,
       {{0, 8, 6, lloyd_max}, {8, 24, 4, trellis}, {32, 32, 2, trellis}},
       ScaleFormat::log8,
       ScaleFit::unbiased,
       true,
       0},
      {"dropped",
       64,
       {{0, 8, 5, lloyd_max}, {8, 32, 3, trellis}},
       ScaleFormat::log8,
       ScaleFit::least_squares,
       false,
       0},
      {"turning", 64, {{0, 64, 4, lloyd_max}}, ScaleFormat::log8, ScaleFit::unbiased, false, 0, true},
      {"turning and dropped", 128, {{0, 96, 3, trellis}}, ScaleFormat::log8, ScaleFit::unbiased, true, 0, true},
      {"few kept", 256, {{0, 16, 4, trellis}}, ScaleFormat::log8, ScaleFit::least_squares, true, 0},
      {"oscar", 128, {{0, 64, 2, uniform}, {64, 64, 2, uniform}}, ScaleFormat::f16, ScaleFit::min_max, true, 0.96f},
  };
}

Shape turning_shape(bool removed) {
  Shape shape = shapes()[0];
  shape.mean = false;
  shape.turning = removed;
  return shape;
}

Cache fitted_cache(const LayerGeometry& layer, const Shape& shape, int sink = 8) {
  CacheOptions options;
  options.key = options.value = "spectral3";
  options.sink = sink;
  options.recent = 32;
  options.fitted = std::make_shared<RandomFits>(shape);
  return Cache(Geometry{{layer}}, options);
}

TEST(FittedAttend, KernelsMatchReference) {
  AttentionOptions reference;
  reference.reference = true;
  for (const Shape& shape : shapes()) {
    const Stream stream(small_layer(6, 2, shape.dim), 256, 3);
    Cache exact = fitted_cache(stream.layer, shape);
    const auto expected = stream.feed(exact, exact.create(), 0, stream.tokens, reference);
    for (const AttentionOptions& options : all_levels())
      for (int chunk : {stream.tokens, 7, 1}) {
        Cache cache = fitted_cache(stream.layer, shape);
        const auto got = stream.feed_in_chunks(cache, cache.create(), chunk, options);
        EXPECT_LT(relative_error(got, expected), 2e-3)
            << shape.name << " chunk " << chunk << " " << to_string(options.simd);
      }
  }
}

// Position 0 is packed too, and its own mean is in its scores.
TEST(FittedAttend, KernelsMatchReferenceWithoutWindows) {
  AttentionOptions reference;
  reference.reference = true;
  for (const Shape& shape : shapes()) {
    if (!shape.turning) continue;
    const Stream stream(small_layer(6, 2, shape.dim), 200, 5);
    Cache exact = fitted_cache(stream.layer, shape, 0);
    const auto expected = stream.feed(exact, exact.create(), 0, stream.tokens, reference);
    for (const AttentionOptions& options : all_levels())
      for (int chunk : {stream.tokens, 7, 1}) {
        Cache cache = fitted_cache(stream.layer, shape, 0);
        const auto got = stream.feed_in_chunks(cache, cache.create(), chunk, options);
        EXPECT_LT(relative_error(got, expected), 2e-3)
            << shape.name << " chunk " << chunk << " " << to_string(options.simd);
      }
  }
}

// A step of one token over three slices of pages and five stretches of turning means, then a shorter past on the same
// threads.
TEST(FittedAttend, KernelsMatchReferenceOverSlicesAndStretches) {
  const AttentionOptions options = all_levels().back();
  AttentionOptions reference;
  reference.reference = true;
  for (const int tokens : {2300, 1200, 100}) {
    const Stream stream = turning_stream(tokens, 11);
    Cache cache = fitted_cache(stream.layer, turning_shape(true), 0);
    const SequenceId sequence = cache.create();
    const int before = tokens - 20;
    stream.feed(cache, sequence, 0, before, options);
    const SequenceId other = cache.fork(sequence);
    EXPECT_LT(relative_error(stream.feed_in_chunks(cache, sequence, 1, options, before, tokens),
                             stream.feed(cache, other, before, 20, reference)),
              2e-3)
        << tokens;
  }
}

// The mean is taken off before packing and given back in the scores: nothing is lost against tokens that keep it.
TEST(FittedAttend, ApproachesExactAttention) {
  const Stream stream(small_layer(6, 2, 64), 256, 4);
  const std::vector<float> expected = stream.dense();
  double worst[2];
  for (int i = 0; i < 2; ++i) {
    Shape shape = shapes()[0];
    shape.segments[0].bits = i == 0 ? 4 : 6;
    Cache cache = fitted_cache(stream.layer, shape);
    worst[i] = relative_error(stream.feed(cache, cache.create(), 0, stream.tokens, all_levels().back()), expected);
  }
  EXPECT_LT(worst[0], 0.2);
  EXPECT_LT(worst[1], 0.4 * worst[0]);  // two bits more
}

// With their turning mean such keys are nothing that few bits could hold.
TEST(FittedAttend, TurningMeansCostNothing) {
  const Stream stream = turning_stream(400, 7);
  const std::vector<float> expected = stream.dense();
  for (const int sink : {8, 0}) {
    double error[2];
    for (const bool removed : {false, true}) {
      Cache cache = fitted_cache(stream.layer, turning_shape(removed), sink);
      error[removed] =
          relative_error(stream.feed(cache, cache.create(), 0, stream.tokens, all_levels().back()), expected);
    }
    EXPECT_LT(error[1], 0.2) << sink;
    EXPECT_LT(error[1], error[0] / 2) << sink;
  }
}

// Half of the tokens of a stream, in 16 bits.
struct KeptInHalves {
  Cache cache;
  SequenceId sequence;

  explicit KeptInHalves(const Stream& stream, int sink = 8) : cache(one_layer_cache(stream.layer, "f16", sink, 32)) {
    sequence = cache.create();
    stream.feed(cache, sequence, 0, 250, all_levels().back());
    std::vector<std::vector<int32_t>> chosen(2);
    for (int32_t p = sink; p < 250; ++p)
      for (int h = 0; h < 2; ++h)
        if (p == 0 || (p * 7 + h) % 3 != 0) chosen[size_t(h)].push_back(p);
    cache.keep(sequence, 0, chosen);
  }
};

// Kept tokens take the mean of their own positions with them, whatever page they come to: packed once or twice, they
// are as near to what they were as tokens that never had a mean.
TEST(FittedAttend, KeptTokensKeepTheirTurningMean) {
  double error[2][2];
  for (const bool turning : {false, true}) {
    const Stream stream = turning ? turning_stream(300, 8) : Stream(small_layer(6, 2, 64), 300, 8);
    KeptInHalves kept(stream);
    Cache once = fitted_cache(stream.layer, turning_shape(turning)),
          twice = fitted_cache(stream.layer, turning_shape(turning));
    const SequenceId first = once.seal(kept.cache, kept.sequence), second = twice.seal(once, first);
    const std::vector<float> exact = kept.cache.rows(kept.sequence, 0, 1, Side::key);
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> held = i == 0 ? once.rows(first, 0, 1, Side::key) : twice.rows(second, 0, 1, Side::key);
      error[turning][i] = 0;
      for (size_t j = 0; j < held.size(); ++j) error[turning][i] += std::pow(double(held[j]) - double(exact[j]), 2);
    }
  }
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(error[1][i], error[0][i], 0.02 * error[0][i]);
}

TEST(FittedAttend, KernelsMatchReferenceOverKeptTurningTokens) {
  const Stream stream = turning_stream(300, 9);
  const AttentionOptions options = all_levels().back();
  AttentionOptions reference;
  reference.reference = true;
  for (const int sink : {8, 0}) {
    KeptInHalves kept(stream, sink);
    Cache cache = fitted_cache(stream.layer, turning_shape(true), sink);
    const SequenceId sealed = cache.seal(kept.cache, kept.sequence);
    const SequenceId other = cache.fork(sealed);
    EXPECT_LT(relative_error(stream.feed_in_chunks(cache, sealed, 1, options, 250, 300),
                             stream.feed(cache, other, 250, 50, reference)),
              2e-3)
        << sink;
  }
}

TEST(FittedAttend, NeedsFits) {
  CacheOptions options;
  options.key = "spectral3";
  EXPECT_THROW(Cache(Geometry{{small_layer(6, 2, 64)}}, options), Error);
  options.fitted = std::make_shared<RandomFits>(shapes()[0]);
  EXPECT_NO_THROW(Cache(Geometry{{small_layer(6, 2, 64)}}, options));
  EXPECT_THROW(Cache(Geometry{{small_layer(6, 3, 64)}}, options), Error);                         // heads
  EXPECT_THROW(Cache(Geometry{{small_layer(6, 2, 128)}}, options), Error);                        // channels
  EXPECT_THROW(Cache(Geometry{{small_layer(6, 2, 64), small_layer(6, 2, 64)}}, options), Error);  // layers
}

}  // namespace
}  // namespace kvasir
