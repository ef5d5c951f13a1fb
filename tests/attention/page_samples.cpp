// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/attention/page_samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "codec/trellis_segment.h"

namespace kvasir::test {

namespace {

void write_half(SamplePage& page, size_t offset, size_t index, float x) {
  const uint16_t half = float_to_f16(x);
  std::memcpy(page.bytes.data() + offset + index * sizeof half, &half, sizeof half);
}

double read_half(const SamplePage& page, size_t offset, size_t index, HalfKind kind = HalfKind::f16) {
  uint16_t half = 0;
  std::memcpy(&half, page.bytes.data() + offset + index * sizeof half, sizeof half);
  return half_to_float(kind, half);
}

// Index among a page's scales (or zero points) of the one for this value.
size_t scale_index(const Codec& codec, int segment, int token, int channel) {
  if (codec.scale_span == ScaleSpan::token) return size_t(segment * kPageTokens + token);
  return size_t(token / kBlockTokens * codec.dim + channel);
}

size_t scale_count(const SideLayout& layout) {
  switch (layout.codec.scale_span) {
    case ScaleSpan::none: return 0;
    case ScaleSpan::token: return layout.segments.size() * kPageTokens;
    case ScaleSpan::channel: return size_t(kBlocksPerPage * layout.codec.dim);
  }
  return 0;
}

void fill(SamplePage& page, SplitMix& random) {
  const SideLayout& layout = page.layout;
  for (std::byte& byte : page.bytes) byte = std::byte(random.below(256));
  for (const SegmentLayout& segment : layout.segments) {
    if (!segment.raw()) continue;
    for (size_t i = 0; i < size_t(kPageTokens * segment.count); ++i) {
      const uint16_t half = float_to_half(segment.half, float(random.normal()));
      std::memcpy(page.bytes.data() + segment.codes + i * sizeof half, &half, sizeof half);
    }
  }
  const size_t scales = scale_count(layout);
  for (size_t i = 0; i < scales; ++i) {
    write_half(page, layout.scales, i, float(std::exp(2.0 * random.normal())));
    if (layout.codec.has_zero_point()) write_half(page, layout.zeros, i, float(3.0 * random.normal()));
  }
  if (!layout.codec.center) return;
  for (int c = 0; c < layout.dim(); ++c) write_half(page, layout.mean, size_t(c), float(10.0 * random.normal()));
}

void decode_segment(SamplePage& page, int index) {
  const SideLayout& layout = page.layout;
  const SegmentLayout& segment = layout.segments[size_t(index)];
  // What the packed codes of each cell stand for, both blocks; of a trellis the levels, else the codes.
  constexpr size_t cell_codes = size_t(kVectorCodes) * kCellVectors;
  const int cells = segment.raw() ? 0 : kBlocksPerPage * segment.cells();
  std::vector<uint8_t> codes(size_t(cells) * cell_codes);
  for (int cell = 0; cell < cells; ++cell) {
    const std::byte* packed = page.bytes.data() + segment.codes;
    uint8_t* out = codes.data() + size_t(cell) * cell_codes;
    if (segment.trellis) {
      unpack_trellis_cell(*segment.trellis, packed, cells, cell, out);
    } else {
      unpack_cell(segment.bits, packed + size_t(cell) * segment.cell_bytes(), out);
    }
  }
  for (int t = 0; t < kPageTokens; ++t) {
    for (int c = 0; c < segment.count; ++c) {
      const int channel = segment.first + c;
      const size_t at = page.at(t, channel);
      double part = 0.0, zero = 0.0;
      if (segment.raw()) {
        part = read_half(page, segment.codes, size_t(t * segment.count + c), segment.half);
      } else {
        const int cell = t / kBlockTokens * segment.cells() + c / kCellChannels;
        const CodePlace place = code_place(layout.codec.side, t % kBlockTokens, c % kCellChannels);
        const uint8_t code = codes[size_t(cell) * cell_codes + size_t(place.vector * kVectorCodes + place.byte)];
        page.level[at] = segment.trellis ? double(code - segment.trellis->offset) * double(segment.trellis->step)
                                         : double(segment.codebook->level[code] - segment.codebook->offset) *
                                               double(segment.codebook->step);
        const size_t i = scale_index(layout.codec, index, t, channel);
        if (layout.codec.scale_span != ScaleSpan::none) page.scale[at] = read_half(page, layout.scales, i);
        if (layout.codec.has_zero_point()) zero = read_half(page, layout.zeros, i);
        part = page.level[at] * page.scale[at];
      }
      const double mean = layout.codec.center && !segment.signs ? read_half(page, layout.mean, size_t(channel)) : 0.0;
      page.value[at] = part + zero + mean;
      page.magnitude[at] = std::abs(part) + std::abs(zero) + std::abs(mean);
    }
  }
}

}  // namespace

SamplePage sample_page(const Codec& codec, uint64_t seed) {
  SamplePage page;
  page.layout = SideLayout(codec);
  page.bytes.resize(page.layout.bytes);
  const size_t values = size_t(kPageTokens) * size_t(codec.mapped_dim());
  page.value.resize(values);
  page.magnitude.resize(values);
  page.level.resize(values);
  page.scale.assign(values, 1.0);
  SplitMix random(seed);
  fill(page, random);
  for (int s = 0; s < int(page.layout.segments.size()); ++s) decode_segment(page, s);
  return page;
}

std::vector<Codec> unusual_codecs(Side side) {
  std::vector<Codec> codecs;
  const auto add = [&](const char* name, int dim, bool center, ScaleSpan span, ScaleFit fit,
                       std::vector<Segment> segments) {
    Codec codec;
    codec.name = name;
    codec.side = side;
    codec.dim = dim;
    codec.center = center;
    codec.scale_span = span;
    codec.scale_fit = fit;
    codec.segments = std::move(segments);
    codecs.push_back(std::move(codec));
  };
  const auto lloyd = QuantizerKind::lloyd_max, uniform = QuantizerKind::uniform;
  add("every-lloyd-width", 72, true, ScaleSpan::token, ScaleFit::absmax,
      {{0, 8, 1, lloyd},
       {8, 16, 2, lloyd},
       {24, 8, 3, lloyd},
       {32, 16, 4, lloyd},
       {48, 8, 5, lloyd},
       {56, 16, 6, lloyd}});
  add("every-uniform-width", 80, false, ScaleSpan::token, ScaleFit::min_max,
      {{0, 8, 1, uniform},
       {8, 16, 2, uniform},
       {24, 8, 3, uniform},
       {32, 16, 4, uniform},
       {48, 8, 5, uniform},
       {56, 16, 6, uniform},
       {72, 8, 8, uniform}});
  add("symmetric-channels", 64, true, ScaleSpan::channel, ScaleFit::absmax,
      {{0, 40, 5, uniform}, {40, 24, 8, uniform}});
  add("asymmetric-channels", 136, true, ScaleSpan::channel, ScaleFit::min_max,
      {{0, 64, 2, uniform}, {64, 72, 3, uniform}});
  const auto trellis = QuantizerKind::trellis;
  add("every-trellis-width", 80, true, ScaleSpan::token, ScaleFit::least_squares,
      {{0, 8, 1, trellis}, {8, 16, 2, trellis}, {24, 8, 3, trellis}, {32, 40, 4, trellis}, {72, 8, 2, trellis}});
  add("wide-trellis", 160, false, ScaleSpan::token, ScaleFit::unbiased, {{0, 96, 3, trellis}, {96, 64, 1, trellis}});
  add("raw-among-packed", 96, true, ScaleSpan::token, ScaleFit::absmax,
      {{0, 32, 16, QuantizerKind::raw_f16}, {32, 24, 4, lloyd}, {56, 40, 16, QuantizerKind::raw_bf16}});
  add("no-scale", 64, false, ScaleSpan::none, ScaleFit::none, {{0, 64, 6, lloyd}});
  add("widest-head", 512, true, ScaleSpan::token, ScaleFit::min_max, {{0, 512, 8, uniform}});
  return codecs;
}

std::vector<float> random_floats(size_t n, SplitMix& random) {
  std::vector<float> x(n);
  for (float& value : x) value = float(random.normal());
  return x;
}

std::vector<float> random_weights(size_t n, SplitMix& random) {
  std::vector<float> x(n);
  for (float& value : x) value = random.below(5) == 0 ? 0.0f : float(std::exp(-12.0 * random.uniform()));
  return x;
}

std::vector<uint16_t> random_halves(HalfKind kind, size_t n, SplitMix& random) {
  std::vector<uint16_t> x(n);
  for (uint16_t& value : x) value = float_to_half(kind, float(random.normal()));
  return x;
}

std::vector<SimdLevel> available_levels() {
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : kSimdLevels) {
    if (simd_available(level)) levels.push_back(level);
  }
  return levels;
}

std::string name_of(SimdLevel level) {
  return to_string(level);
}

void expect_near(const std::string& what, const std::vector<float>& actual, const std::vector<double>& expected,
                 const std::vector<double>& tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  size_t worst = 0;
  double excess = -1.0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(double(actual[i]) - expected[i]);
    const double ratio = std::isnan(error) ? HUGE_VAL : error == 0.0 ? 0.0 : error / tolerance[i];
    if (ratio <= excess) continue;
    excess = ratio;
    worst = i;
  }
  EXPECT_LE(excess, 1.0) << what << ": worst at " << worst << ": " << actual[worst] << " instead of " << expected[worst]
                         << ", tolerance " << tolerance[worst];
}

}  // namespace kvasir::test
