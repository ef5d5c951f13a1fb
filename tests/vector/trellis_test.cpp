// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The search against brute force and on every instruction set; the levels against one more round of their training.
#include "vector/trellis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "vector/code_table.h"
#include "vector/scan.h"

namespace kvasir {
namespace {

std::vector<int32_t> targets(int steps, const CodeTable& table, uint64_t seed) {
  SplitMix random(seed);
  std::vector<int32_t> x(size_t(steps * kTrellisLanes));
  for (int32_t& value : x) {
    const double units = random.normal() / double(table.step) * kTrellisScale / 4;
    value = 4 * int32_t(std::clamp(std::round(units), -double(kTrellisLargest) / 4, double(kTrellisLargest) / 4));
  }
  return x;
}

std::vector<uint8_t> encoded(const ScanKernels& kernels, const CodeTable& table, const std::vector<int32_t>& x) {
  const int steps = int(x.size()) / kTrellisLanes;
  std::vector<int32_t> scratch(trellis_scratch(steps));
  std::vector<uint8_t> codes(x.size(), 99);
  kernels.encode_trellis(table.bits, table.level.data(), x.data(), steps, scratch.data(), codes.data());
  return codes;
}

int64_t squared(const CodeTable& table, uint8_t window, int32_t target) {
  const int64_t difference = (int64_t(table.level[window]) - 128) * kTrellisScale - target;
  return difference * difference;
}

// Of one sequence: channel 4 step + i of vector v.
int64_t error_of(const CodeTable& table, const std::vector<int32_t>& x, int lane, const std::vector<uint8_t>& codes) {
  int64_t error = 0;
  uint8_t window = 0;
  for (size_t step = 0; step < codes.size(); ++step) {
    window = uint8_t((window >> table.bits) | (codes[step] << (8 - table.bits)));
    error += squared(table, window, x[step * kTrellisLanes + size_t(lane)]);
  }
  return error;
}

TEST(Trellis, NoCodesComeCloser) {
  constexpr int kSteps = 4;
  for (const int bits : {2, 4}) {
    const CodeTable table = make_code_table(VectorCode::trellis, bits);
    const std::vector<int32_t> x = targets(kSteps, table, 3);
    const std::vector<uint8_t> codes = encoded(scalar_scan(), table, x);
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      std::vector<uint8_t> own(kSteps), other(kSteps);
      for (int step = 0; step < kSteps; ++step)
        own[size_t(step)] = codes[size_t(lane / 4 * kSteps * 4 + 4 * step + lane % 4)];
      int64_t best = INT64_MAX;
      for (int all = 0; all < 1 << (bits * kSteps); ++all) {
        for (int step = 0; step < kSteps; ++step)
          other[size_t(step)] = uint8_t(all >> (bits * step) & ((1 << bits) - 1));
        best = std::min(best, error_of(table, x, lane, other));
      }
      EXPECT_EQ(error_of(table, x, lane, own), best) << bits << " bits, lane " << lane;
    }
  }
}

TEST(Trellis, CodesAreTheSameOnEveryLevel) {
  for (const ScanLevel level : {ScanLevel::avx2, ScanLevel::avx512}) {
    if (!scan_available(level)) continue;
    for (const int bits : {2, 4})
      for (const int steps : {4, 8, 12, 15, 16, 17, 76, 384}) {
        const CodeTable table = make_code_table(VectorCode::trellis, bits);
        const std::vector<int32_t> x = targets(steps, table, uint64_t(steps));
        EXPECT_EQ(encoded(scan_kernels(level), table, x), encoded(scalar_scan(), table, x))
            << to_string(level) << ", " << bits << " bits, " << steps << " steps";
      }
  }
}

// Targets as far from all levels as they can be, for as long as a vector can be: no sum may overflow.
TEST(Trellis, LongExtremeVectors) {
  for (const int bits : {2, 4}) {
    const CodeTable table = make_code_table(VectorCode::trellis, bits);
    constexpr int kSteps = 65536 / kTrellisSequences;
    std::vector<int32_t> x(size_t(kSteps * kTrellisLanes));
    SplitMix random(1);
    for (int32_t& value : x) value = (random.next() & 1) ? kTrellisLargest : -kTrellisLargest;
    const std::vector<uint8_t> codes = encoded(scan_kernels(), table, x);
    // As near as the 2^bits levels of each window let it come; an overflow would pick far ones.
    double error = 0, greedy = 0;
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      std::vector<uint8_t> own(kSteps);
      for (size_t step = 0; step < kSteps; ++step)
        own[step] = codes[size_t(lane / 4) * kSteps * 4 + 4 * step + size_t(lane % 4)];
      error += double(error_of(table, x, lane, own));
      uint8_t window = 0;
      for (size_t step = 0; step < kSteps; ++step) {
        const int32_t target = x[step * kTrellisLanes + size_t(lane)];
        uint8_t best = uint8_t(window >> bits);
        for (int code = 1; code < 1 << bits; ++code) {
          const uint8_t next = uint8_t((window >> bits) | (code << (8 - bits)));
          if (squared(table, next, target) < squared(table, best, target)) best = next;
        }
        window = best;
        greedy += double(squared(table, window, target));
      }
    }
    EXPECT_LE(error, greedy) << bits;
  }
}

TEST(Trellis, LevelsAreTrained) {
  for (const int bits : {2, 4}) {
    const CodeTable table = make_code_table(VectorCode::trellis, bits);
    constexpr int kSteps = 384, kRounds = 20;
    std::vector<double> sum(256), count(256);
    double error = 0, samples = 0;
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<int32_t> x = targets(kSteps, table, uint64_t(1000 + round));
      std::vector<uint8_t> codes = encoded(scan_kernels(), table, x);
      for (int v = 0; v < 4; ++v) {
        uint8_t* row = &codes[size_t(v * kSteps * 4)];
        to_windows(bits, kSteps * 4, row);
        for (int j = 0; j < kSteps * 4; ++j) {
          const double value = double(x[size_t(j / 4 * kTrellisLanes + 4 * v + j % 4)]) / kTrellisScale * table.step;
          sum[row[j]] += value;
          ++count[row[j]];
          error += std::pow(value - double(table.value[row[j]]), 2);
          ++samples;
        }
      }
    }
    // What moving every level to the mean of its samples would gain, less what chance alone gives.
    double gain = 0;
    for (size_t window = 0; window < 256; ++window) {
      if (count[window] > 0)
        gain += count[window] * std::pow(sum[window] / count[window] - double(table.value[window]), 2);
    }
    EXPECT_LT(gain / error - 256 / samples, 0.01) << bits;
    EXPECT_NEAR(error / samples, bits == 2 ? 0.0830 : 0.0062, bits == 2 ? 0.0017 : 0.0001) << bits;
  }
}

}  // namespace
}  // namespace kvasir
