// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/page_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kDims[] = {64, 72, 80, 96, 112, 128, 160, 192, 256};

std::vector<float> gaussian(size_t count, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> x(count);
  for (float& value : x) value = float(random.normal());
  return x;
}

std::vector<float> round_trip(const SideLayout& layout, const std::vector<float>& x) {
  std::vector<std::byte> page(layout.bytes);
  std::vector<float> y(x.size());
  encode_page(layout, 0, x.data(), page.data());
  decode_page(layout, 0, page.data(), y.data());
  return y;
}

double energy(const std::vector<float>& x) {
  double sum = 0;
  for (float value : x) sum += double(value) * double(value);
  return sum;
}
double error(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (double(x[i]) - double(y[i])) * (double(x[i]) - double(y[i]));
  return sum;
}

// Most that a codec may lose of Gaussian input, per unit of energy: Lloyd-Max values, D / (1 - D) for the unbiased
// scale; for uniform codecs the step of the expected range (Gaussian extremes of 32 and of a head) over sqrt(12).
double bound(const Codec& codec) {
  if (codec.raw()) return codec.segments[0].quantizer == QuantizerKind::raw_f16 ? 0x1p-22 : 0x1p-16;
  const int bits = codec.segments.back().bits;  // the fewest, where segments differ
  if (codec.scale_fit == ScaleFit::min_max) return std::pow(5.4 / ((1 << bits) - 1), 2) / 12;
  if (codec.scale_fit == ScaleFit::absmax) return std::pow(4.4 / 127, 2) / 12;
  if (codec.segments.back().quantizer == QuantizerKind::residual_sign) {
    const int levels = codec.segments.size() == 1 ? 0 : codec.segments[0].bits;
    return 1.05 * (std::numbers::pi / 2 - 1) * (levels == 0 ? 1 : lloyd_max_codebook(levels).gaussian_mse());
  }
  const double mse = lloyd_max_codebook(bits).gaussian_mse();
  return 1.05 * mse / (1 - mse);
}

TEST(PageCodec, EveryCodecKeepsItsBoundAtEveryHeadDim) {
  for (const std::string& name : codec_names())
    for (int dim : kDims)
      for (Side side : {Side::key, Side::value}) {
        const SideLayout layout(make_codec(name, side, dim));
        double lost = 0, total = 0;
        for (uint64_t page = 0; page < 8; ++page) {
          const auto x = gaussian(size_t(kPageTokens * dim), 100 * page + uint64_t(dim));
          lost += error(x, round_trip(layout, x));
          total += energy(x);
        }
        EXPECT_LT(lost / total, bound(layout.codec)) << name << " dim " << dim << " side " << int(side);
      }
}

TEST(PageCodec, SizesAreThoseOfTheDocumentation) {
  const auto bits = [](const char* name, Side side) { return bits_per_value(make_codec(name, side, 128)); };
  EXPECT_DOUBLE_EQ(bits("f16", Side::key), 16);
  EXPECT_DOUBLE_EQ(bits("q8", Side::value), 8.125);
  EXPECT_DOUBLE_EQ(bits("kivi2", Side::key), 3);
  EXPECT_DOUBLE_EQ(bits("kivi2", Side::value), 3);
  EXPECT_DOUBLE_EQ(bits("kivi4", Side::key), 5);
  EXPECT_DOUBLE_EQ(bits("turbo4", Side::value), 4.125);
  EXPECT_DOUBLE_EQ(bits("turbo3", Side::value), 3.125);
  EXPECT_DOUBLE_EQ(bits("turbo2", Side::value), 2.125);
  EXPECT_DOUBLE_EQ(bits("turbo2.5", Side::value), 2.5 + 1 / 64.0) << "the channel order is a bit a channel and page";
  EXPECT_DOUBLE_EQ(bits("turbo3.5", Side::value), 3.5 + 1 / 64.0);
  EXPECT_DOUBLE_EQ(bits("turboprod3", Side::value), 3.25);
  EXPECT_DOUBLE_EQ(bits("turbo4", Side::key), 4.125 + 0.25) << "a page mean is 16 / 64 bits a value";
}

// Zeros, constants, one huge value, alternating extremes, denormals: no NaN, and constants come back.
TEST(PageCodec, HardPagesStayFinite) {
  for (const std::string& name : codec_names())
    for (int dim : {64, 80, 128})
      for (Side side : {Side::key, Side::value}) {
        const SideLayout layout(make_codec(name, side, dim));
        std::vector<std::vector<float>> pages(6, std::vector<float>(size_t(kPageTokens * dim), 0.0f));
        for (float& x : pages[1]) x = -3.25f;
        pages[2][size_t(5 * dim + 7)] = 1e5f;
        for (size_t i = 0; i < pages[3].size(); ++i) pages[3][i] = i % 2 ? 6e4f : -6e4f;
        for (size_t i = 0; i < pages[4].size(); ++i) pages[4][i] = float(i % 7) * 1e-42f;
        pages[5] = gaussian(pages[5].size(), 2);
        for (float& x : pages[5]) x *= 1e-4f;
        for (size_t p = 0; p < pages.size(); ++p) {
          const auto y = round_trip(layout, pages[p]);
          for (float x : y) ASSERT_TRUE(std::isfinite(x)) << name << " page " << p;
          if (p == 0) {
            EXPECT_EQ(energy(y), 0.0) << name;
          }
        }
        // One bit keeps the sign alone: a constant spread by the rotation loses what a normal vector loses, 0.36.
        const bool one_bit = layout.codec.segments.back().bits == 1 && layout.segments.size() == 1;
        EXPECT_LT(error(pages[1], round_trip(layout, pages[1])), (one_bit ? 0.7 : 0.25) * energy(pages[1]))
            << name << " constant";
      }
}

TEST(PageCodec, EncodingIsAFunctionOfThePage) {
  const SideLayout layout(make_codec("turbo3", Side::key, 96));
  const auto x = gaussian(size_t(kPageTokens * 96), 7);
  std::vector<std::byte> a(layout.bytes, std::byte{0xaa}), b(layout.bytes, std::byte{0x55});
  encode_page(layout, 0, x.data(), a.data());
  encode_page(layout, 0, x.data(), b.data());
  EXPECT_EQ(a, b) << "every byte of a page is written";
}

// The K scale is |y|^2 / <c, y>: on average over vectors, <x, x^> = <x, x> and so is every inner product.
TEST(PageCodec, KeyScaleIsUnbiased) {
  for (const char* name : {"turbo2", "turbo3", "turbo4"}) {
    Codec codec = make_codec(name, Side::key, 64);
    codec.center = false;
    const SideLayout layout(codec);
    double sum = 0, square = 0;
    int count = 0;
    for (uint64_t page = 0; page < 40; ++page) {
      const auto x = gaussian(size_t(kPageTokens * 64), 1000 + page), q = gaussian(x.size(), 5000 + page);
      const auto y = round_trip(layout, x);
      for (int t = 0; t < kPageTokens; ++t, ++count) {
        // A query correlated with the key: a biased estimator would show.
        double difference = 0;
        for (int c = 0; c < 64; ++c) {
          const size_t i = size_t(t * 64 + c);
          difference += (double(y[i]) - double(x[i])) * (double(x[i]) + double(q[i]));
        }
        sum += difference;
        square += difference * difference;
      }
    }
    const double mean = sum / count, se = std::sqrt((square / count - mean * mean) / count);
    EXPECT_LT(std::abs(mean), 4 * se) << name;
  }
}

TEST(PageLayout, PackIsUndoneByUnpack) {
  SplitMix random(9);
  for (int bits : {1, 2, 3, 4, 5, 6, 8}) {
    uint8_t codes[kCellVectors * kVectorCodes], back[kCellVectors * kVectorCodes];
    for (uint8_t& code : codes) code = uint8_t(random.below(1u << bits));
    std::vector<std::byte> cell(size_t(32 * bits));
    pack_cell(bits, codes, cell.data());
    unpack_cell(bits, cell.data(), back);
    EXPECT_TRUE(std::equal(codes, codes + sizeof codes, back)) << bits;
  }
}

TEST(PageLayout, EveryCodeHasItsOwnPlace) {
  for (Side side : {Side::key, Side::value}) {
    std::vector<bool> taken(size_t(kCellVectors * kVectorCodes), false);
    for (int t = 0; t < kBlockTokens; ++t)
      for (int c = 0; c < kCellChannels; ++c) {
        const CodePlace place = code_place(side, t, c);
        const size_t i = size_t(place.vector * kVectorCodes + place.byte);
        EXPECT_FALSE(taken[i]);
        taken[i] = true;
      }
  }
}

TEST(Registry, RefusesWithTheWayOut) {
  try {
    make_codec("turbo9", Side::key, 64);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("turbo4"), std::string::npos) << error.what();
  }
  for (int dim : {0, 7, 60, 100, 67 * 8, 16384}) {
    try {
      make_codec("turbo4", Side::key, dim);
      FAIL() << dim;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find(std::to_string(dim)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace kvasir
