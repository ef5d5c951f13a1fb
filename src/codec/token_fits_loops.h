// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The body of token_fits*.cpp, each of which is compiled for another instruction set: everything here is internal to
// the file that includes it. Includers define before:
//
//   Floats, Ints, Doubles    vectors of one size, unaligned
//   low_doubles(Floats), high_doubles(Floats)    its lower and upper half
//   store_bytes(Ints, uint8_t*)                  the lowest byte of each
#pragma once

#include "codec/token_fits.h"

namespace kvasir {
namespace {

constexpr int kLanes = int(sizeof(Floats) / sizeof(float)), kDoubles = kLanes / 2;

inline Floats load(const float* x) {
  return *reinterpret_cast<const Floats*>(x);
}
inline void store(Floats x, float* to) {
  *reinterpret_cast<Floats*>(to) = x;
}
inline void store(Doubles x, double* to) {
  *reinterpret_cast<Doubles*>(to) = x;
}

// <c, y> and <c, c> of the tokens of a vector.
struct Sums {
  Doubles cross[2] = {}, power[2] = {};

  inline void add(Floats level, Floats y) {
    const Doubles c[] = {low_doubles(level), high_doubles(level)}, x[] = {low_doubles(y), high_doubles(y)};
    for (int i = 0; i < 2; ++i) {
      cross[i] += c[i] * x[i];
      power[i] += c[i] * c[i];
    }
  }
  inline void store_at(int token, double* crosses, double* powers) const {
    for (int i = 0; i < 2; ++i) {
      store(cross[i], crosses + token + i * kDoubles);
      store(power[i], powers + token + i * kDoubles);
    }
  }
};

inline void energies(const float* y, int channels, double* energy) {
  for (int t = 0; t < kColumns; t += kLanes) {
    Doubles low = {}, high = {};
    for (int c = 0; c < channels; ++c) {
      const Floats x = load(y + c * kColumns + t);
      const Doubles a = low_doubles(x), b = high_doubles(x);
      low += a * a;
      high += b * b;
    }
    store(low, energy + t);
    store(high, energy + t + kDoubles);
  }
}

// Two vectors at a time share the edges that are read.
inline void nearest_levels(const LevelTable& table, const float* inverse, const float* y, int channels, uint8_t* codes,
                           double* cross, double* power) {
  for (int t = 0; t < kColumns; t += 2 * kLanes) {
    const Floats scale[] = {load(inverse + t), load(inverse + t + kLanes)};
    Sums sums[2];
    for (int c = 0; c < channels; ++c) {
      const float* at = y + c * kColumns + t;
      const Floats x[] = {load(at), load(at + kLanes)};
      const Floats u[] = {x[0] * scale[0], x[1] * scale[1]};
      Ints code[2] = {};
      Floats level[] = {Floats{} + table.value[0], Floats{} + table.value[0]};
      for (int e = 0; e < table.edges; ++e) {
        const Floats edge = Floats{} + table.edge[e], value = Floats{} + table.value[e + 1];
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
          const auto above = u[i] >= edge;
          code[i] -= above;
          level[i] = above ? value : level[i];
        }
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        store_bytes(code[i], codes + c * kColumns + t + i * kLanes);
        sums[i].add(level[i], x[i]);
      }
    }
    for (int i = 0; i < 2; ++i) sums[i].store_at(t + i * kLanes, cross, power);
  }
}

inline void level_sums(const uint8_t* levels, int offset, const float* y, int channels, double* cross, double* power) {
  for (int t = 0; t < kColumns; t += kLanes) {
    Sums sums;
    for (int c = 0; c < channels; ++c) {
      float level[kLanes];
      for (int i = 0; i < kLanes; ++i) level[i] = float(int(levels[c * kColumns + t + i]) - offset);
      sums.add(load(level), load(y + c * kColumns + t));
    }
    sums.store_at(t, cross, power);
  }
}

inline void extremes(const float* y, int channels, float* low, float* high) {
  for (int t = 0; t < kColumns; t += kLanes) {
    Floats least = load(y + t), most = least;
    for (int c = 1; c < channels; ++c) {
      const Floats x = load(y + c * kColumns + t);
      least = x < least ? x : least;
      most = x > most ? x : most;
    }
    store(least, low + t);
    store(most, high + t);
  }
}

inline void round_levels(const LevelRange& range, const float* zero, const float* inverse, const float* y, int channels,
                         uint8_t* codes) {
  // Floats from 2^23 to 2^24 are the integers: adding one of these rounds to the nearest integer, ties to even.
  constexpr float kIntegers = 0x1.8p23f;
  constexpr int kIntegersBits = 0x4b400000;
  const Floats least = Floats{} + range.least, most = Floats{} + range.most;
  for (int c = 0; c < channels; ++c)
    for (int t = 0; t < kColumns; t += kLanes) {
      Floats u = (load(y + c * kColumns + t) - load(zero + t)) * load(inverse + t);
      u = u > least ? u : least;
      u = u < most ? u : most;
      store_bytes((Ints)(u + kIntegers) + (range.offset - kIntegersBits), codes + c * kColumns + t);
    }
}

// `largest` holds the largest magnitudes so far in descending order; each new one moves what is smaller down.
inline void clip(int rank, float* y, int channels, float* largest) {
  const Ints sign = Ints{} + int(0x80000000u);
  for (int t = 0; t < kColumns; t += kLanes) {
    for (int i = 0; i < rank; ++i) store(Floats{}, largest + i * kColumns + t);
    for (int c = 0; c < channels; ++c) {
      Floats x = (Floats)((Ints)load(y + c * kColumns + t) & ~sign);
      for (int i = 0; i < rank; ++i) {
        const Floats other = load(largest + i * kColumns + t);
        store(other > x ? other : x, largest + i * kColumns + t);
        x = other < x ? other : x;
      }
    }
    const Floats most = load(largest + (rank - 1) * kColumns + t);
    for (int c = 0; c < channels; ++c) {
      Floats x = load(y + c * kColumns + t);
      x = x < most ? x : most;
      store(x > -most ? x : -most, y + c * kColumns + t);
    }
  }
}

inline void channel_sums(const float* y, int channels, double* sum) {
  constexpr int kParts = 8;
  for (int c = 0; c < channels; ++c, y += kColumns) {
    Doubles parts[kParts / kDoubles] = {};
    for (int t = 0; t < kColumns; t += kParts)
      for (int i = 0; i < kParts; i += kDoubles)
        parts[i / kDoubles] += __builtin_convertvector(*reinterpret_cast<const HalfFloats*>(y + t + i), Doubles);
    double s[kParts];
    for (int i = 0; i < kParts; i += kDoubles) store(parts[i / kDoubles], s + i);
    sum[c] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
}

constexpr TokenFits kLoops = {energies, nearest_levels, level_sums, extremes, round_levels, clip, channel_sums};

}  // namespace
}  // namespace kvasir
