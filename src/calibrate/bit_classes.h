// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How many bits each mapped channel is worth. Channels come in descending variance and are cut into classes, runs whose
// channels share bits, one scale a token and a rotation; a class is a segment of the codec.
#pragma once

#include <vector>

namespace kvasir {

struct BitClass {
  int first = 0, count = 0, bits = 0;  // channels; multiples of 8
  bool operator==(const BitClass&) const = default;
};

struct ClassBudget {
  int bytes = 0;                         // of a token, codes and scales together
  int scale_bytes = 1;                   // of each class
  int min_classes = 1, max_classes = 4;  // that hold bits
  int most_bits = 6;
};

// The classes with the least expected squared error, sum over classes of D(bits, count) times their variance, within
// the budget; a last class of 0 bits may be left over and isn't listed. variance: [dim], descending; dim a multiple
// of 8. Exact, by dynamic programming over cells of 8 channels.
std::vector<BitClass> choose_classes(const std::vector<double>& variance, const ClassBudget& budget);

// Whether a class of that shape is trellis-coded: a trellis needs a way to go before it gains anything, and has 4 bits
// at most.
constexpr bool trellis_coded(int bits, int channels) {
  return bits <= 4 && channels >= 16;
}

// D(b, channels): what the class's quantizer leaves of a unit variance; D(0) = 1.
double class_distortion(int bits, int channels);

}  // namespace kvasir
