// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// SplitMix64: the one generator of the project. Everything random is a pure function of a seed that is stored or
// printed, on every platform; <random>'s distributions are not.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace kvasir {

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return double(next() >> 11) * 0x1p-53; }  // [0, 1)
  uint64_t below(uint64_t n) { return next() % n; }            // bias below 2^-40 for the sizes used here
  double normal() {                                            // Box-Muller, one value a call
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  uint64_t state_;
};

}  // namespace kvasir
