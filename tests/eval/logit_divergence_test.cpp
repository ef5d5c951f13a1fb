// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/logit_divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

std::vector<float> random_logits(int count, double spread, uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> logits(size_t(count), 0.0f);
  for (float& logit : logits) logit = float(spread * random.normal());
  return logits;
}

struct Plain {
  long double kld = 0, nll = 0, nll_base = 0;
};

long double log_sum(const std::vector<float>& logits) {
  const long double top = *std::max_element(logits.begin(), logits.end());
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

Plain plain(const std::vector<float>& base, const std::vector<float>& test, int target) {
  const long double base_log = log_sum(base), test_log = log_sum(test);
  Plain result;
  for (size_t i = 0; i < base.size(); ++i)
    result.kld += std::exp(base[i] - base_log) * ((base[i] - base_log) - (test[i] - test_log));
  result.nll = test_log - test[size_t(target)];
  result.nll_base = base_log - base[size_t(target)];
  return result;
}

TEST(LogitDivergence, TwoOutcomesByHand) {
  // Base (1/2, 1/2), test (1/4, 3/4): KL = ln(2)/2 + ln(2/3)/2 = ln(4/3)/2.
  const std::vector<float> base = {7.0f, 7.0f}, test = {-3.0f, -3.0f + std::log(3.0f)};
  const LogitDivergence result = compare_logits(base, test, 0);
  EXPECT_NEAR(result.kld, 0.5 * std::log(4.0 / 3.0), 1e-7);  // ln 3 as a float
  EXPECT_NEAR(result.nll, std::log(4.0), 1e-7);
  EXPECT_NEAR(result.nll_base, std::log(2.0), 1e-15);
  EXPECT_NEAR(result.delta_p(), -0.25, 1e-7);
  EXPECT_FALSE(result.same_top);
}

TEST(LogitDivergence, MatchesThePlainFormulaAtEverySize) {
  for (const int size : {2, 3, 4, 5, 7, 8, 63, 1000, 49152})
    for (const double spread : {0.01, 1.0, 8.0, 60.0}) {
      const std::vector<float> base = random_logits(size, spread, uint64_t(size)),
                               noise = random_logits(size, 0.05 * spread, 9);
      std::vector<float> test = base;
      for (size_t i = 0; i < test.size(); ++i) test[i] += noise[i];
      const Plain expected = plain(base, test, size / 2);
      const LogitDivergence result = compare_logits(base, test, size / 2);
      // Sums of `size` doubles, and logarithms of the size of the logits.
      const double tolerance = 4e-16 * (std::sqrt(double(size)) + 10 * spread) * (1 + spread);
      EXPECT_NEAR(result.kld, double(expected.kld), tolerance) << size << " " << spread;
      EXPECT_NEAR(result.nll, double(expected.nll), tolerance + 1e-15 * double(expected.nll)) << size << " " << spread;
      EXPECT_NEAR(result.nll_base, double(expected.nll_base), tolerance + 1e-15 * double(expected.nll_base));
    }
}

TEST(LogitDivergence, EqualRowsAreZeroAndShiftsDontCount) {
  const std::vector<float> base = random_logits(1000, 4, 1);
  std::vector<float> shifted = base;
  for (float& logit : shifted) logit = logit * 0.5f;
  std::vector<float> halved = shifted;
  for (float& logit : shifted) logit += 16.0f;
  EXPECT_EQ(compare_logits(base, base, 3).kld, 0.0);
  EXPECT_TRUE(compare_logits(base, base, 3).same_top);
  EXPECT_LT(compare_logits(halved, shifted, 3).kld, 1e-11);  // 16 + x rounds x to 2^-20
}

TEST(LogitDivergence, MaskedTokens) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const std::vector<float> base = {0.0f, kMasked, 0.0f, 0.0f, 0.0f}, same = {1.0f, kMasked, 1.0f, 1.0f, 1.0f};
  const std::vector<float> open = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  EXPECT_EQ(compare_logits(base, same, 0).kld, 0.0);
  EXPECT_NEAR(compare_logits(base, open, 0).kld, std::log(5.0 / 4.0), 1e-15);
  EXPECT_TRUE(std::isinf(compare_logits(open, base, 0).kld));  // the test rules out what the base allows
}

TEST(LogitDivergence, BrokenLogitsAreAnError) {
  const std::vector<float> good = {0.0f, 1.0f, 2.0f};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (size_t place = 0; place < 3; ++place) {
      std::vector<float> broken = good;
      broken[place] = bad;
      EXPECT_THROW(compare_logits(good, broken, 0), Error);
      EXPECT_THROW(compare_logits(broken, good, 0), Error);
    }
}

}  // namespace
}  // namespace kvasir
