// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/processor.h"
#include "base/random.h"
#include "kvasir/error.h"
#include "quant/codebook.h"
#include "quant/trellis_coder.h"

namespace kvasir {
namespace {

struct Named {
  std::string name;
  const TrellisCode* code;
};

std::vector<Named> all_codes() {
  return {{"1 bit", &trellis_code(1)},
          {"2 bits", &trellis_code(2)},
          {"3 bits", &trellis_code(3)},
          {"4 bits", &trellis_code(4)},
          {"3 bits, long", &long_trellis_code()}};
}

std::vector<float> normal_samples(size_t n, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> x(n);
  for (float& value : x) value = float(random.normal());
  return x;
}

// The definition, step by step.
std::vector<uint8_t> levels_of(const TrellisCode& code, const std::vector<uint8_t>& codes, int steps) {
  std::vector<uint8_t> levels(codes.size());
  const int back = (code.window_bits + code.bits - 1) / code.bits;
  for (int step = 0; step < steps; ++step)
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      int window = 0;
      for (int i = step - back + 1; i <= step; ++i)
        window = window >> code.bits | codes[size_t((i + 8 * steps) % steps * kTrellisLanes + lane)]
                                           << (code.window_bits - code.bits);
      levels[size_t(step * kTrellisLanes + lane)] = uint8_t(code.level(window));
    }
  return levels;
}

double squared_error(const TrellisCode& code, const std::vector<float>& x, const std::vector<uint8_t>& codes,
                     int steps) {
  const std::vector<uint8_t> levels = levels_of(code, codes, steps);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = double(x[i]) - double(code.value(levels[i]));
    sum += error * error;
  }
  return sum;
}

// Mean squared error of N(0,1) in sequences of that many steps.
double normal_mse(const TrellisCode& code, int steps, int values) {
  const TrellisCoder coder(code);
  TrellisScratch scratch;
  const size_t page = size_t(steps) * kTrellisLanes;
  const int pages = std::max(1, values / int(page));
  std::vector<uint8_t> codes(page);
  double sum = 0;
  for (int i = 0; i < pages; ++i) {
    const std::vector<float> x = normal_samples(page, uint64_t(1000 * steps + i));
    coder.encode(x.data(), nullptr, steps, scratch, codes.data());
    sum += squared_error(code, x, codes, steps);
  }
  return sum / (double(pages) * double(page));
}

TEST(TrellisCode, LevelsAreBytesAndWindowsEndWhereTheySay) {
  for (int bits = 1; bits <= 4; ++bits) EXPECT_EQ(trellis_code(bits).mixes, trellis_mixes(bits)) << bits;
  for (const auto& [name, code] : all_codes()) {
    EXPECT_GE(code->window_bits, 2 * code->bits) << name;
    EXPECT_LE(code->window_bits, code->bits * code->group_codes() * (code->mixes + 1)) << name;
    int least = 255, most = 0;
    for (int window = 0; window < code->windows(); ++window) {
      ASSERT_LT(code->hash(window), 1 << code->hash_bits) << name;
      least = std::min(least, code->level(window));
      most = std::max(most, code->level(window));
    }
    EXPECT_GE(least, 0) << name;
    EXPECT_LE(most, 255) << name;
    // A group that reaches past the window's end must not matter there.
    const int group_bits = code->bits * code->group_codes(), past = group_bits * (code->mixes + 1) - code->window_bits;
    for (int group = 0; group < 1 << group_bits; ++group)
      EXPECT_EQ(code->mix[code->mixes - 1][group], code->mix[code->mixes - 1][group >> past << past]) << name;
  }
}

// The bound is 1.2 4^-b; Lloyd-Max has 1.45, 1.88, 2.21 and 2.43.
TEST(TrellisCode, SquaredErrorOfNormalValues) {
  const double ratio[] = {0, 1.19, 1.21, 1.31, 1.58};
  for (int bits = 1; bits <= 4; ++bits) {
    const double shannon = std::pow(4.0, -bits), mse = normal_mse(trellis_code(bits), 512, 200'000);
    EXPECT_GT(mse, shannon) << bits;
    EXPECT_LT(mse, ratio[bits] * shannon) << bits;
    EXPECT_LT(mse, .82 * lloyd_max_exact(bits).mse) << bits;
  }
}

TEST(TrellisCode, ALongWindowReachesTheBoundAtThreeBitsToo) {
  const double shannon = std::pow(4.0, -3), mse = normal_mse(long_trellis_code(), 512, 100'000);
  EXPECT_GT(mse, shannon);
  EXPECT_LT(mse, 1.2 * shannon);
}

// Segments of few channels make short circles, which leave less to choose from.
TEST(TrellisCode, ShortSequencesCostLittle) {
  for (int bits = 2; bits <= 4; ++bits) {
    const double full = normal_mse(trellis_code(bits), 512, 400'000);
    for (const int steps : {32, 64, 128, 256}) {
      const double mse = normal_mse(trellis_code(bits), steps, 400'000);
      EXPECT_LT(mse, full * (1 + 5.0 / steps)) << bits << " bits, " << steps << " steps";
    }
  }
}

// All paths of a few steps from all states, tried one by one. The search rounds costs to multiples of 2^b.
TEST(TrellisCoder, FindsTheBestOfAllPaths) {
  const int bits = 2, steps = 5, lanes = kTrellisLanes;
  const TrellisCoder& coder = TrellisCoder::of(bits);
  const TrellisPlan& plan = coder.plan();
  const int states = trellis_states(bits, plan.window_bits), words = trellis_words(bits, plan.window_bits);
  const std::vector<float> normal = normal_samples(size_t(steps * lanes), 7);
  std::vector<float> loudness(normal.size());
  for (size_t i = 0; i < loudness.size(); ++i) loudness[i] = float(i % 13) / 5;
  std::vector<std::array<int64_t, 2>> sum(size_t(lanes), {INT64_MAX, 0});  // the best, and the one found
  TrellisScratch room;
  int16_t* x = room.words(size_t((steps * (2 + words) + 2 * states) * lanes));
  coder.to_integers(normal.data(), loudness.data(), steps, x);
  int16_t* cost = x + 2 * steps * lanes;
  std::vector<uint8_t> codes(size_t(steps * lanes));
  alignas(64) uint16_t state[kTrellisLanes];
  search_trellis(plan, x, 0, steps, true, state, cost, reinterpret_cast<uint16_t*>(cost + 2 * states * lanes),
                 codes.data());

  for (int start = 0; start < states; ++start)
    for (int path = 0; path < 1 << (bits * steps); ++path) {
      int value[steps], window = start << bits;
      for (int step = 0; step < steps; ++step) {
        window = window >> bits | (path >> (bits * step) & 3) << (plan.window_bits - bits);
        value[step] = plan.value[plan.hash[window] / kTrellisLanes];
      }
      for (int lane = 0; lane < lanes; ++lane) {
        int64_t error = 0;
        bool own = true;
        for (int step = 0; step < steps; ++step) {
          const int loud = x[(2 * step + 1) * lanes + lane];
          const int difference =
              std::clamp((x[2 * step * lanes + lane] - value[step]) * loud >> 16, -kTrellisReach, kTrellisReach);
          error += difference * difference;
          own = own && codes[size_t(step * lanes + lane)] == (path >> (bits * step) & 3);
        }
        auto& [best, found] = sum[size_t(lane)];
        best = std::min(best, error);
        if (own && (found == 0 || error < found)) found = error;
      }
    }
  for (int lane = 0; lane < lanes; ++lane) {
    const auto& [best, found] = sum[size_t(lane)];
    EXPECT_LE(found, best + steps * (1 << bits)) << lane;
  }
}

// With loudness as values have it, the error of what they stand for falls as if some of the bits had moved.
TEST(TrellisCoder, SparesTheLoud) {
  const int steps = 128;
  for (int bits = 2; bits <= 4; ++bits) {
    const TrellisCoder& coder = TrellisCoder::of(bits);
    const std::vector<float> x = normal_samples(size_t(steps * kTrellisLanes), 5);
    std::vector<float> loudness(x.size());
    for (size_t i = 0; i < x.size(); ++i) loudness[i] = i / kTrellisLanes % 2 ? 1.5f : 0.5f;
    TrellisScratch scratch;
    double sum[2] = {};
    for (const bool heard : {false, true}) {
      std::vector<uint8_t> codes(x.size());
      coder.encode(x.data(), heard ? loudness.data() : nullptr, steps, scratch, codes.data());
      const std::vector<uint8_t> levels = levels_of(coder.code(), codes, steps);
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = double(x[i]) - double(coder.code().value(levels[i]));
        sum[heard] += error * error * double(loudness[i]) * double(loudness[i]);
      }
    }
    EXPECT_LT(sum[1], .8 * sum[0]) << bits;
    EXPECT_GT(sum[1], .6 * sum[0]) << bits << ": moving bits freely would give 2 1.5 .5 / (1.5^2 + .5^2)";
  }
}

TEST(TrellisCoder, TheSameCodesOnEveryInstructionSet) {
  for (const auto& [name, code] : all_codes()) {
    const TrellisCoder coder(*code);
    for (const int steps : {16, 17, 48}) {
      std::vector<float> x = normal_samples(size_t(steps) * kTrellisLanes, uint64_t(steps));
      for (size_t i = 0; i < x.size(); i += 37) x[i] *= 1e6f;  // beyond all levels
      TrellisScratch scratch;
      std::vector<uint8_t> plain(x.size()), fast(x.size());
      coder.encode(x.data(), nullptr, steps, scratch, plain.data(), search_trellis);
      coder.encode(x.data(), nullptr, steps, scratch, fast.data());
      EXPECT_EQ(plain, fast) << name << ", " << steps << " steps";
#ifdef KVASIR_X86
      if (!processor_has_avx2()) continue;
      coder.encode(x.data(), nullptr, steps, scratch, fast.data(), avx2::search_trellis);
      EXPECT_EQ(plain, fast) << name << ", " << steps << " steps, avx2";
#endif
    }
  }
}

TEST(TrellisCoder, DecodesWhatTheCodeDefines) {
  for (const auto& [name, code] : all_codes()) {
    const TrellisCoder coder(*code);
    const int steps = 24;
    SplitMix random(1);
    std::vector<uint8_t> codes(size_t(steps * kTrellisLanes)), levels(codes.size());
    for (uint8_t& c : codes) c = uint8_t(random.below(uint64_t(1) << code->bits));
    coder.decode(codes.data() + (steps - kTrellisBefore) * kTrellisLanes, codes.data(), steps, levels.data());
    EXPECT_EQ(levels, levels_of(*code, codes, steps)) << name;
  }
}

TEST(TrellisCoder, ScratchIsReusedWithoutATrace) {
  const int steps = 32;
  const std::vector<float> x = normal_samples(size_t(steps) * kTrellisLanes, 3);
  const std::vector<float> other = normal_samples(4 * x.size(), 4);
  std::vector<uint8_t> first(x.size()), second(x.size()), ignored(other.size());
  TrellisScratch fresh, used;
  TrellisCoder::of(3).encode(x.data(), nullptr, steps, fresh, first.data());
  TrellisCoder::of(2).encode(other.data(), nullptr, 4 * steps, used, ignored.data());
  TrellisCoder::of(3).encode(x.data(), nullptr, steps, used, second.data());
  EXPECT_EQ(first, second);
}

TEST(TrellisCode, RefusesWidthsItHasNot) {
  EXPECT_THROW(trellis_code(5), Error);
  EXPECT_THROW(trellis_code(0), Error);
}

}  // namespace
}  // namespace kvasir
