// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/trellis_code.h"

#include <string>

#include "kvasir/error.h"

namespace kvasir {

namespace {

constexpr TrellisCode kTrellis1 = {.bits = 1,
                                   .window_bits = 8,
                                   .hash_bits = 4,
                                   .mixes = 1,
                                   .offset = 105,
                                   .step = 0.0161934f,
                                   .mix = {{14, 0, 8, 6, 12, 14, 3, 13, 9, 0, 0, 7, 4, 6, 15, 2}},
                                   .coarse = {132, 82, 76, 161, 89, 115, 144, 27, 50, 165, 153, 79, 215, 1, 63, 124},
                                   .fine = {0}};

constexpr TrellisCode kTrellis2 = {.bits = 2,
                                   .window_bits = 10,
                                   .hash_bits = 6,
                                   .mixes = 2,
                                   .offset = 128,
                                   .step = 0.0189376f,
                                   .mix = {{51, 15, 4, 37, 44, 16, 54, 11, 57, 48, 15, 52, 51, 62, 54, 37},
                                           {42, 42, 42, 42, 51, 51, 51, 51, 33, 33, 33, 33, 45, 45, 45, 45}},
                                   .coarse = {120, 94, 218, 2, 159, 122, 58, 174, 90, 52, 138, 128, 48, 165, 101, 85},
                                   .fine = {0, 33, 10, 21}};

constexpr TrellisCode kTrellis3 = {
    .bits = 3,
    .window_bits = 9,
    .hash_bits = 6,
    .mixes = 2,
    .offset = 116,
    .step = 0.0259934f,
    .mix = {{27, 12, 1, 41, 40, 0, 32, 50, 0, 0, 0, 0, 0, 0, 0, 0}, {7, 0, 6, 2, 4, 55, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0}},
    .coarse = {112, 188, 67, 84, 98, 128, 47, 148, 119, 41, 90, 141, 103, 1, 76, 60},
    .fine = {14, 44, 30, 0}};

constexpr TrellisCode kTrellis4 = {.bits = 4,
                                   .window_bits = 8,
                                   .hash_bits = 7,
                                   .mixes = 1,
                                   .offset = 123,
                                   .step = 0.0254154f,
                                   .mix = {{83, 45, 48, 64, 18, 36, 98, 86, 27, 95, 87, 101, 116, 105, 16, 76}},
                                   .coarse = {56, 32, 92, 134, 145, 0, 191, 99, 83, 66, 44, 75, 158, 124, 108, 116},
                                   .fine = {27, 28, 36, 58, 15, 21, 41, 0}};

constexpr TrellisCode kLongTrellis2 = {
    .bits = 2,
    .window_bits = 10,
    .hash_bits = 6,
    .mixes = 2,
    .offset = 128,
    .step = 0.0189376f,
    .mix = {{51, 15, 4, 37, 44, 16, 54, 11, 57, 48, 15, 52, 51, 62, 54, 37},
            {42, 42, 42, 42, 51, 51, 51, 51, 33, 33, 33, 33, 45, 45, 45, 45}},
    .coarse = {120, 94, 218, 2, 159, 122, 58, 174, 90, 52, 138, 128, 48, 165, 101, 85},
    .fine = {0, 33, 10, 21}};

constexpr TrellisCode kLongTrellis3 = {
    .bits = 3,
    .window_bits = 9,
    .hash_bits = 6,
    .mixes = 2,
    .offset = 116,
    .step = 0.0259934f,
    .mix = {{27, 12, 1, 41, 40, 0, 32, 50, 0, 0, 0, 0, 0, 0, 0, 0}, {7, 0, 6, 2, 4, 55, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0}},
    .coarse = {112, 188, 67, 84, 98, 128, 47, 148, 119, 41, 90, 141, 103, 1, 76, 60},
    .fine = {14, 44, 30, 0}};

}  // namespace

int TrellisCode::hash(int window) const {
  const int group_bits = bits * group_codes();
  // Room below the window for groups that reach past its end.
  const int shifted = window << (group_bits * (mixes + 1)) >> window_bits;
  const int mask = (1 << group_bits) - 1;
  int hash = shifted >> (group_bits * mixes) & mask;
  for (int m = 0; m < mixes; ++m) hash ^= mix[m][shifted >> (group_bits * (mixes - 1 - m)) & mask];
  return hash;
}

const TrellisCode& trellis_code(int bits) {
  switch (bits) {
    case 1: return kTrellis1;
    case 2: return kTrellis2;
    case 3: return kTrellis3;
    case 4: return kTrellis4;
    default:
      throw Error(ErrorCode::invalid_argument,
                  "no trellis code of " + std::to_string(bits) + " bits; choose 1 to 4, or the lloyd-max quantizer");
  }
}

const TrellisCode& long_trellis_code(int bits) {
  if (bits != 2 && bits != 3)
    throw Error(ErrorCode::invalid_argument,
                "no long trellis code of " + std::to_string(bits) + " bits; choose 2 or 3");
  return bits == 2 ? kLongTrellis2 : kLongTrellis3;
}

}  // namespace kvasir
