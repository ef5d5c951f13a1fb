// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "transform/signed_fwht.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numbers>
#include <string>

#include "base/random.h"
#include "kvasir/error.h"
#include "transform/page_columns.h"

namespace kvasir {
namespace {

constexpr int kMaxOdd = 63;

int odd_part(int dim) {
  while (dim > 0 && dim % 2 == 0) dim /= 2;
  return dim;
}

using Four = float __attribute__((vector_size(16)));

// Two stages within 4 neighbours. A sum with the negated value is the difference, to the last bit.
inline Four quadruple(Four x) {
  constexpr Four kSecond = {1, -1, 1, -1}, kUpper = {1, 1, -1, -1};
  x = __builtin_shufflevector(x, x, 0, 0, 2, 2) + kSecond * __builtin_shufflevector(x, x, 1, 1, 3, 3);
  return __builtin_shufflevector(x, x, 0, 1, 0, 1) + kUpper * __builtin_shufflevector(x, x, 2, 3, 2, 3);
}

// The first three stages within 8 neighbours, then two stages a pass: each value is read and written once a pass, and
// the inner loops are vectors. Sums are those of one stage after the other, to the last bit.
void hadamard(float* r, int n) {
  int half = 1;
  if (n >= 8) {
    for (int i = 0; i < n; i += 8) {
      Four a, b;
      std::memcpy(&a, r + i, sizeof a);
      std::memcpy(&b, r + i + 4, sizeof b);
      a = quadruple(a);
      b = quadruple(b);
      const Four sum = a + b, difference = a - b;
      std::memcpy(r + i, &sum, sizeof sum);
      std::memcpy(r + i + 4, &difference, sizeof difference);
    }
    half = 8;
  }
  for (; 4 * half <= n; half *= 4)
    for (int i = 0; i < n; i += 4 * half) {
      float *r0 = r + i, *r1 = r0 + half, *r2 = r1 + half, *r3 = r2 + half;
      for (int j = 0; j < half; ++j) {
        const float a = r0[j] + r1[j], b = r0[j] - r1[j], c = r2[j] + r3[j], d = r2[j] - r3[j];
        r0[j] = a + c;
        r1[j] = b + d;
        r2[j] = a - c;
        r3[j] = b - d;
      }
    }
  for (; half < n; half *= 2)
    for (int i = 0; i < n; i += 2 * half) {
      float *r0 = r + i, *r1 = r0 + half;
      for (int j = 0; j < half; ++j) {
        const float a = r0[j], b = r1[j];
        r0[j] = a + b;
        r1[j] = a - b;
      }
    }
}

constexpr int kStrip = 16;  // columns at once

// x [odd, stride]: Width <= kStrip columns become hartley [odd, odd] times themselves.
template <int Width>
void hartley(float* x, int odd, int stride, const float* hartley) {
  float in[kMaxOdd][Width];
  for (int j = 0; j < odd; ++j) std::memcpy(in[j], x + j * stride, sizeof in[j]);
  for (int j = 0; j < odd; ++j) {
    float sum[Width] = {};
    for (int k = 0; k < odd; ++k) {
      const float factor = hartley[j * odd + k];
#pragma GCC unroll 16
      for (int c = 0; c < Width; ++c) sum[c] += factor * in[k][c];
    }
    std::memcpy(x + j * stride, sum, sizeof sum);
  }
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
  for (int row = 0; row < odd_; ++row) hadamard(x + row * power_, power_);
  if (odd_ == 1) {
    for (int i = 0; i < dim_; ++i) x[i] *= hartley_[0];
    return;
  }
  // Powers of two: whole strips or one narrow one.
  const float* h = hartley_.data();
  if (power_ == 2) return hartley<2>(x, odd_, power_, h);
  if (power_ == 4) return hartley<4>(x, odd_, power_, h);
  if (power_ == 8) return hartley<8>(x, odd_, power_, h);
  for (int column = 0; column < power_; column += kStrip) hartley<kStrip>(x + column, odd_, power_, h);
}

void SignedFwht::forward(float* x) const {
  for (int i = 0; i < dim_; ++i) x[i] *= signs_[size_t(i)];
  symmetric(x);
}

void SignedFwht::forward(const PageColumns& columns, float* x) const {
  columns.scale(signs_.data(), dim_, x);
  for (int row = 0; row < odd_; ++row) columns.hadamard(x + row * power_ * kColumns, power_);
  if (odd_ == 1) {
    columns.scale_all(hartley_[0], dim_, x);
    return;
  }
  // Channels are [odd, power], and what stands in one column of these is a map of its own.
  float in[kMaxOdd * kColumns], out[kMaxOdd * kColumns];
  for (int column = 0; column < power_; ++column) {
    const auto row = [&](int j) { return x + (j * power_ + column) * kColumns; };
    for (int j = 0; j < odd_; ++j) std::memcpy(in + j * kColumns, row(j), kColumns * sizeof(float));
    columns.multiply(hartley_.data(), odd_, odd_, in, out);
    for (int j = 0; j < odd_; ++j) std::memcpy(row(j), out + j * kColumns, kColumns * sizeof(float));
  }
}

void SignedFwht::inverse(float* y) const {
  symmetric(y);
  for (int i = 0; i < dim_; ++i) y[i] *= signs_[size_t(i)];
}

}  // namespace kvasir
