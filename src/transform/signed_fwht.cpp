// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "transform/signed_fwht.h"

#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <string>

#include "base/random.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kMaxOdd = 63;

int odd_part(int dim) {
  while (dim > 0 && dim % 2 == 0) dim /= 2;
  return dim;
}

}  // namespace

bool SignedFwht::supports(int dim) {
  return dim >= 2 && dim % 2 == 0 && odd_part(dim) <= kMaxOdd;
}

SignedFwht::SignedFwht(int dim, uint64_t seed) : dim_(dim), odd_(odd_part(dim)), power_(0) {
  if (!supports(dim))
    throw Error(ErrorCode::unsupported, "no fast rotation for " + std::to_string(dim) +
                                            " channels: it needs an even count whose odd factor is at most 63");
  power_ = dim / odd_;
  SplitMix random(seed ^ (uint64_t(dim) << 32));
  signs_.resize(size_t(dim));
  for (float& sign : signs_) sign = (random.next() >> 63) ? -1.0f : 1.0f;
  const double norm = 1.0 / std::sqrt(double(dim));
  hartley_.resize(size_t(odd_ * odd_));
  for (int j = 0; j < odd_; ++j)
    for (int k = 0; k < odd_; ++k) {
      const double angle = 2 * std::numbers::pi * double(j * k % odd_) / odd_;
      hartley_[size_t(j * odd_ + k)] = float(odd_ == 1 ? norm : (std::cos(angle) + std::sin(angle)) * norm);
    }
}

const SignedFwht& SignedFwht::of(int dim) {
  static std::mutex mutex;
  static std::map<int, SignedFwht> cache;
  const std::lock_guard lock(mutex);
  auto found = cache.find(dim);
  if (found == cache.end()) found = cache.emplace(dim, SignedFwht(dim)).first;
  return found->second;
}

void SignedFwht::symmetric(float* x) const {
  // Channels are [odd, power]: Hadamard along each row, Hartley across rows.
  for (int row = 0; row < odd_; ++row) {
    float* r = x + row * power_;
    for (int half = 1; half < power_; half *= 2)
      for (int i = 0; i < power_; i += 2 * half)
        for (int j = i; j < i + half; ++j) {
          const float a = r[j], b = r[j + half];
          r[j] = a + b;
          r[j + half] = a - b;
        }
  }
  if (odd_ == 1) {
    for (int i = 0; i < dim_; ++i) x[i] *= hartley_[0];
    return;
  }
  std::array<float, kMaxOdd> in;
  for (int column = 0; column < power_; ++column) {
    for (int j = 0; j < odd_; ++j) in[size_t(j)] = x[j * power_ + column];
    for (int j = 0; j < odd_; ++j) {
      float sum = 0;
      for (int k = 0; k < odd_; ++k) sum += hartley_[size_t(j * odd_ + k)] * in[size_t(k)];
      x[j * power_ + column] = sum;
    }
  }
}

void SignedFwht::forward(float* x) const {
  for (int i = 0; i < dim_; ++i) x[i] *= signs_[size_t(i)];
  symmetric(x);
}

void SignedFwht::inverse(float* y) const {
  symmetric(y);
  for (int i = 0; i < dim_; ++i) y[i] *= signs_[size_t(i)];
}

}  // namespace kvasir
