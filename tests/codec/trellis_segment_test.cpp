// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/trellis_segment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "codec/page_codec.h"
#include "quant/trellis_coder.h"

namespace kvasir {
namespace {

std::vector<float> gaussian(size_t count, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> x(count);
  for (float& value : x) value = float(random.normal());
  return x;
}

Codec trellis(int bits, Side side, int dim, const std::string& options = "") {
  return make_codec("turbo" + std::to_string(bits) + ":quantizer=trellis" + options, side, dim);
}

std::vector<float> round_trip(const SideLayout& layout, const std::vector<float>& x) {
  std::vector<std::byte> page(layout.bytes, std::byte{0xaa});
  std::vector<float> y(x.size());
  encode_page(layout, 0, x.data(), page.data());
  decode_page(layout, 0, page.data(), y.data());
  return y;
}

// Mean over tokens of |x - x^|^2 / |x|^2.
double relative_error(int dim, const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  const size_t tokens = x.size() / size_t(dim);
  for (size_t t = 0; t < tokens; ++t) {
    double error = 0, energy = 0;
    for (size_t i = t * size_t(dim); i < (t + 1) * size_t(dim); ++i) {
      error += (double(x[i]) - double(y[i])) * (double(x[i]) - double(y[i]));
      energy += double(x[i]) * double(x[i]);
    }
    if (energy > 0) sum += error / energy;
  }
  return sum / double(tokens);
}

double mean_error(const SideLayout& layout, int pages) {
  double sum = 0;
  for (int page = 0; page < pages; ++page) {
    const auto x = gaussian(size_t(kPageTokens * layout.dim()), uint64_t(page + 1));
    sum += relative_error(layout.dim(), x, round_trip(layout, x));
  }
  return sum / pages;
}

TEST(TrellisSegment, LosesLessThanTheBestLevels) {
  const double most[] = {0, .84, .67, .62, .68};  // of Lloyd-Max's error; 4^-b is .69, .53, .45 and .41 of it
  for (int bits = 1; bits <= 4; ++bits)
    for (const int dim : {24, 64, 80, 128, 256})
      for (const Side side : {Side::key, Side::value}) {
        const SideLayout plain(make_codec("turbo" + std::to_string(bits) + ":scale=least-squares:mean=off", side, dim));
        const SideLayout layout(trellis(bits, side, dim, ":scale=least-squares:mean=off"));
        EXPECT_EQ(layout.bytes, plain.bytes);
        const double slack = 1 + 2.0 / dim;  // a segment of few channels is a short circle
        EXPECT_LT(mean_error(layout, 4), most[bits] * slack * mean_error(plain, 4))
            << bits << " bits, dim " << dim << ", side " << int(side);
      }
}

// Neighbours in a sequence are other tokens and channels. Each token is divided by its own scale before, so the quiet
// ones lose nothing beside the loud ones, and a token of zeros stays one.
TEST(TrellisSegment, TokensOfAnyLoudnessKeepTheirShare) {
  const int dim = 64;
  for (const Side side : {Side::key, Side::value}) {
    const SideLayout layout(trellis(3, side, dim, ":mean=off"));
    auto x = gaussian(size_t(kPageTokens * dim), 5);
    const double even = relative_error(dim, x, round_trip(layout, x));
    SplitMix random(9);
    for (int t = 0; t < kPageTokens; ++t) {
      const float loudness = t % 7 == 3 ? 0.0f : float(std::exp(3 * random.normal()));
      for (int c = 0; c < dim; ++c) x[size_t(t * dim + c)] *= loudness;
    }
    const auto y = round_trip(layout, x);
    EXPECT_LT(relative_error(dim, x, y), 1.02 * even);
    for (int c = 0; c < dim; ++c) EXPECT_EQ(y[size_t(3 * dim + c)], 0.0f);
  }
}

// Codes are chosen against the 8-bit scale. It costs what a scale fitted afterwards wins: one of 64 degrees of freedom.
TEST(TrellisSegment, EightBitScalesCostLittle) {
  for (int bits = 2; bits <= 4; ++bits) {
    Codec codec = trellis(bits, Side::value, 64);
    const double wide = mean_error(SideLayout(codec), 8);
    codec.scale_format = ScaleFormat::log8;
    EXPECT_LT(mean_error(SideLayout(codec), 8), (1 + 1.5 / 64) * wide) << bits;
  }
}

// <x, x^> = <x, x> of each vector: then every inner product is right on average.
TEST(TrellisSegment, KeyScaleIsUnbiased) {
  const int dim = 64;
  for (int bits = 2; bits <= 4; ++bits) {
    const SideLayout layout(trellis(bits, Side::key, dim, ":mean=off"));
    const auto x = gaussian(size_t(kPageTokens * dim), 3), y = round_trip(layout, x);
    for (int t = 0; t < kPageTokens; ++t) {
      double cross = 0, energy = 0;
      for (int c = 0; c < dim; ++c) {
        cross += double(x[size_t(t * dim + c)]) * double(y[size_t(t * dim + c)]);
        energy += double(x[size_t(t * dim + c)]) * double(x[size_t(t * dim + c)]);
      }
      EXPECT_NEAR(cross / energy, 1, 0x1p-10) << bits << " bits, token " << t;  // f16 scales
    }
  }
}

TEST(TrellisSegment, HardPagesStayFinite) {
  for (int bits = 1; bits <= 4; ++bits)
    for (const char* options : {"", ":split=on"}) {
      const SideLayout layout(trellis(bits, Side::key, 64, options));
      std::vector<std::vector<float>> pages(5, std::vector<float>(size_t(kPageTokens * 64), 0.0f));
      for (float& x : pages[1]) x = -3.25f;
      pages[2][size_t(5 * 64 + 7)] = 1e5f;
      for (size_t i = 0; i < pages[3].size(); ++i) pages[3][i] = i % 2 ? 6e4f : -6e4f;
      for (size_t i = 0; i < pages[4].size(); ++i) pages[4][i] = float(i % 7) * 1e-42f;
      for (const auto& x : pages)
        for (const float value : round_trip(layout, x)) ASSERT_TRUE(std::isfinite(value)) << layout.codec.name;
    }
}

// A thread keeps room from page to page, of whatever size the last one was.
TEST(TrellisSegment, EncodingIsAFunctionOfThePage) {
  const SideLayout layout(trellis(3, Side::value, 96)), other(trellis(2, Side::key, 256));
  const auto x = gaussian(size_t(kPageTokens * 96), 7);
  std::vector<std::byte> a(layout.bytes, std::byte{0xaa}), b(layout.bytes, std::byte{0x55});
  encode_page(layout, 0, x.data(), a.data());
  round_trip(other, gaussian(size_t(kPageTokens * 256), 8));
  encode_page(layout, 0, x.data(), b.data());
  EXPECT_EQ(a, b) << "every byte of a page is written";
}

// The circle of codes runs through the cells of both blocks and closes at the first.
TEST(TrellisSegment, CellsUnpackAsPartsOfOneCircle) {
  for (int bits = 1; bits <= 4; ++bits) {
    const int cells = 6, cell_codes = kCellVectors * kVectorCodes;
    SplitMix random(uint64_t(bits) + 1);
    std::vector<uint8_t> codes(size_t(cells * cell_codes)), whole(codes.size()), cell(size_t(cell_codes), 0);
    for (uint8_t& code : codes) code = uint8_t(random.below(uint64_t(1) << bits));
    std::vector<std::byte> packed(size_t(cells * kVectorCodes * bits));
    for (int i = 0; i < cells; ++i)
      pack_cell(bits, codes.data() + i * cell_codes, packed.data() + i * kVectorCodes * bits);
    TrellisCoder::of(bits).decode(codes.data() + (cells - 1) * cell_codes, codes.data(), cells * kCellVectors,
                                  whole.data());
    for (int i = 0; i < cells; ++i) {
      unpack_trellis_cell(trellis_code(bits), packed.data(), cells, i, cell.data());
      for (int j = 0; j < cell_codes; ++j)
        ASSERT_EQ(cell[size_t(j)], whole[size_t(i * cell_codes + j)]) << bits << " bits, cell " << i;
    }
  }
}

}  // namespace
}  // namespace kvasir
