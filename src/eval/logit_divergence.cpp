// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/logit_divergence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// e^x for x <= 0 without a branch or a call, so that the compiler can work on several at once: x = n ln 2 + r with
// |r| <= ln(2) / 2, the Taylor series to r^12 (remainder below 2e-16), n into the exponent. Terms below e^-700 are far
// under one ulp of any sum that has e^0 in it.
inline double exp_to_zero(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  x = x < -700.0 ? -700.0 : x;
  const double shifted = x * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  return std::bit_cast<double>(std::bit_cast<int64_t>(sum) + (std::bit_cast<int64_t>(shifted) << 52));
}

// The first of the largest logits.
size_t top_of(std::span<const float> logits) {
  size_t top = 0;
  bool sound = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    sound = sound && logits[i] < std::numeric_limits<float>::infinity();  // false for NaN too
    if (logits[i] > logits[top]) top = i;
  }
  if (!sound || logits[top] == -std::numeric_limits<float>::infinity())
    throw Error(ErrorCode::internal, "the model's logits hold NaN or infinity, so there is nothing to compare");
  return top;
}

}  // namespace

double LogitDivergence::delta_p() const {
  return std::exp(-nll) - std::exp(-nll_base);
}

LogitDivergence compare_logits(std::span<const float> base, std::span<const float> test, int32_t target) {
  if (base.size() != test.size() || target < 0 || size_t(target) >= base.size())
    throw Error(ErrorCode::internal, "logit rows of different vocabularies");
  const size_t base_top = top_of(base), test_top = top_of(test);
  const float base_max = base[base_top], test_max = test[test_top];

  // With b, t the logits less their maxima and Z the sums of e^b, e^t:
  //   KL = sum p (b - log Zb - t + log Zt) = sum e^b (b - t) / Zb - log Zb + log Zt.
  // Four sums each: independent chains, and a fixed order of summation on every machine.
  constexpr size_t kLanes = 4;
  double base_sum[kLanes] = {}, test_sum[kLanes] = {}, cross[kLanes] = {};
  const auto add = [&](size_t lane, size_t i) {
    const double b = double(base[i]) - double(base_max), t = double(test[i]) - double(test_max);
    const double p = exp_to_zero(b);
    base_sum[lane] += p;
    test_sum[lane] += exp_to_zero(t);
    // A masked token (-Inf) has no base probability; e^-700 times infinity must not become one.
    cross[lane] += b < -700.0 ? 0.0 : p * (b - t);
  };
  const size_t whole = base.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  for (size_t i = whole; i < base.size(); ++i) add(i - whole, i);
  const auto total = [](const double* lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); };
  const double log_base = std::log(total(base_sum)), log_test = std::log(total(test_sum));

  LogitDivergence result;
  // Rounding may leave -1e-16 where both rows are equal.
  result.kld = std::max(0.0, total(cross) / total(base_sum) - log_base + log_test);
  result.nll = log_test - (double(test[size_t(target)]) - double(test_max));
  result.nll_base = log_base - (double(base[size_t(target)]) - double(base_max));
  result.same_top = base_top == test_top;
  return result;
}

}  // namespace kvasir
