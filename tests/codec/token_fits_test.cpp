// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the encoder does to 64 tokens at once, on every instruction set, against one value after the other: the same
// numbers to the last bit.
#include "codec/token_fits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "codec/code_cells.h"
#include "quant/codebook.h"
#include "tests/base/normal_floats.h"

namespace kvasir {
namespace {

constexpr int kChannels[] = {1, 8, 13, 64};

std::vector<float> normal(int channels, uint64_t seed) {
  return test::normal_floats(channels * kColumns, seed);
}

// Rounded before it is added, on every machine.
double product(double a, double b) {
  const volatile double rounded = a * b;
  return rounded;
}

struct Sums {
  std::vector<double> energy, cross, power;
  Sums() : energy(kColumns), cross(kColumns), power(kColumns) {}
};

TEST(TokenFits, NearestLevelsAreThoseOfTheCodebook) {
  for (const TokenFits* fits : all_token_fits())
    for (int bits = 1; bits <= 6; ++bits)
      for (const int channels : kChannels) {
        const Codebook& book = lloyd_max_codebook(bits);
        std::vector<float> values, y = normal(channels, uint64_t(bits)), inverse(size_t(kColumns), 1.0f);
        for (int code = 0; code < book.levels(); ++code) values.push_back(book.value(code));
        for (int t = 0; t < kColumns; ++t) inverse[size_t(t)] = 0.25f + 0.03f * float(t);
        for (size_t i = 0; i < y.size(); i += 5) y[i] = book.edges[i % book.edges.size()];  // on an edge where t = 25
        for (int c = 0; c < channels; ++c) y[size_t(c * kColumns + 7)] = 0;
        inverse[7] = std::numeric_limits<float>::infinity();
        std::vector<uint8_t> codes(y.size());
        Sums got, expected;
        fits->energies(y.data(), channels, got.energy.data());
        fits->nearest_levels({book.levels() - 1, book.edges.data(), values.data()}, inverse.data(), y.data(), channels,
                             codes.data(), got.cross.data(), got.power.data());
        for (int c = 0; c < channels; ++c)
          for (int t = 0; t < kColumns; ++t) {
            const size_t i = size_t(c * kColumns + t), token = size_t(t);
            const float x = y[i];
            const int code = t == 7 ? 0 : book.code(x * inverse[token]);
            ASSERT_EQ(codes[i], code) << bits << " bits, channel " << c << ", token " << t;
            expected.energy[token] += product(x, x);
            expected.cross[token] += product(book.value(code), x);
            expected.power[token] += product(book.value(code), book.value(code));
          }
        EXPECT_EQ(got.energy, expected.energy);
        EXPECT_EQ(got.cross, expected.cross) << bits << " bits, " << channels << " channels";
        EXPECT_EQ(got.power, expected.power) << bits << " bits, " << channels << " channels";
      }
}

TEST(TokenFits, LevelSumsRunOverTheChannels) {
  for (const TokenFits* fits : all_token_fits())
    for (const int channels : kChannels) {
      const std::vector<float> y = normal(channels, 8);
      SplitMix random(9);
      std::vector<uint8_t> levels(y.size());
      for (uint8_t& level : levels) level = uint8_t(random.below(256));
      Sums got, expected;
      fits->level_sums(levels.data(), 109, y.data(), channels, got.cross.data(), got.power.data());
      for (int c = 0; c < channels; ++c)
        for (int t = 0; t < kColumns; ++t) {
          const int level = int(levels[size_t(c * kColumns + t)]) - 109;
          expected.cross[size_t(t)] += product(level, y[size_t(c * kColumns + t)]);
          expected.power[size_t(t)] += level * level;
        }
      EXPECT_EQ(got.cross, expected.cross) << channels;
      EXPECT_EQ(got.power, expected.power) << channels;
    }
}

// Ties go to even, what is beyond the range to its ends.
TEST(TokenFits, RoundedLevelsAreTheNearest) {
  for (const TokenFits* fits : all_token_fits())
    for (const LevelRange range : {LevelRange{0, 15, 0}, LevelRange{0, 3, 0}, LevelRange{-127, 127, 128}}) {
      const int channels = 24;
      std::vector<float> y = normal(channels, 4), low(kColumns), high(kColumns), zero(kColumns), inverse(kColumns);
      for (size_t i = 0; i < y.size(); ++i) y[i] = i % 3 == 0 ? 0.5f * float(int(i % 61) - 30) : 20 * y[i];
      for (int t = 0; t < kColumns; ++t) {
        zero[size_t(t)] = range.offset == 0 ? -float(t) : 0.0f;
        inverse[size_t(t)] = t % 2 ? 1.0f : 0.1f * float(t);
      }
      std::vector<uint8_t> codes(y.size());
      fits->extremes(y.data(), channels, low.data(), high.data());
      fits->round_levels(range, zero.data(), inverse.data(), y.data(), channels, codes.data());
      for (int t = 0; t < kColumns; ++t) {
        const size_t token = size_t(t);
        float least = y[token], most = y[token];
        for (int c = 0; c < channels; ++c) {
          const float x = y[size_t(c * kColumns + t)];
          least = std::min(least, x);
          most = std::max(most, x);
          const float u = std::clamp(std::nearbyint((x - zero[token]) * inverse[token]), range.least, range.most);
          ASSERT_EQ(codes[size_t(c * kColumns + t)], int(u) + range.offset) << x << ", token " << t;
        }
        EXPECT_EQ(low[token], least);
        EXPECT_EQ(high[token], most);
      }
    }
}

TEST(TokenFits, ClipsToTheRank) {
  for (const TokenFits* fits : all_token_fits())
    for (const int rank : {1, 2, 7, 13}) {
      const int channels = 13;
      const std::vector<float> y = normal(channels, 6);
      std::vector<float> clipped = y, room(size_t(rank * kColumns));
      fits->clip(rank, clipped.data(), channels, room.data());
      for (int t = 0; t < kColumns; ++t) {
        std::vector<float> magnitudes;
        for (int c = 0; c < channels; ++c) magnitudes.push_back(std::abs(y[size_t(c * kColumns + t)]));
        std::ranges::sort(magnitudes, std::greater());
        const float most = magnitudes[size_t(rank - 1)];
        for (int c = 0; c < channels; ++c) {
          const size_t i = size_t(c * kColumns + t);
          ASSERT_EQ(clipped[i], std::clamp(y[i], -most, most)) << "rank " << rank;
        }
      }
    }
}

TEST(TokenFits, ChannelSumsAgree) {
  const int channels = 9;
  const std::vector<float> y = normal(channels, 11);
  std::vector<double> plain(channels), sum(channels);
  all_token_fits().front()->channel_sums(y.data(), channels, plain.data());
  for (const TokenFits* fits : all_token_fits()) {
    fits->channel_sums(y.data(), channels, sum.data());
    EXPECT_EQ(sum, plain);
  }
  for (int c = 0; c < channels; ++c) {
    double one = 0;
    for (int t = 0; t < kColumns; ++t) one += double(y[size_t(c * kColumns + t)]);
    EXPECT_NEAR(plain[size_t(c)], one, 1e-12);
  }
}

TEST(CodeCells, HoldColumnsAtTheirPlaces) {
  for (const Side side : {Side::key, Side::value}) {
    std::vector<uint8_t> columns(size_t(kCellChannels * kPageTokens), 0), back(columns.size(), 0);
    for (int c = 0; c < kCellChannels; ++c)
      for (int t = 0; t < kBlockTokens; ++t) columns[size_t(c * kPageTokens + t)] = uint8_t(c * kBlockTokens + t);
    uint8_t cell[kCellCodes];
    to_cell(side, columns.data(), cell);
    for (int c = 0; c < kCellChannels; ++c)
      for (int t = 0; t < kBlockTokens; ++t) {
        const CodePlace place = code_place(side, t, c);
        EXPECT_EQ(cell[place.vector * kVectorCodes + place.byte], c * kBlockTokens + t);
      }
    from_cell(side, cell, back.data());
    EXPECT_EQ(back, columns);
  }
}

}  // namespace
}  // namespace kvasir
