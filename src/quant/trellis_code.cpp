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
                                   .step = 0.0186792f,
                                   .mix = {{63, 32, 2, 47, 31, 36, 11, 2, 60, 15, 10, 29, 39, 25, 35, 24},
                                           {45, 45, 45, 45, 33, 33, 33, 33, 37, 37, 37, 37, 25, 25, 25, 25}},
                                   .coarse = {54, 1, 177, 157, 132, 89, 100, 118, 173, 223, 131, 44, 97, 139, 59, 85},
                                   .fine = {28, 6, 0, 29}};

constexpr TrellisCode kTrellis3 = {.bits = 3,
                                   .window_bits = 9,
                                   .hash_bits = 6,
                                   .mixes = 2,
                                   .offset = 109,
                                   .step = 0.0260183f,
                                   .mix = {{22, 40, 63, 40, 57, 8, 3, 28, 0, 0, 0, 0, 0, 0, 0, 0},
                                           {26, 25, 24, 28, 45, 31, 30, 27, 0, 0, 0, 0, 0, 0, 0, 0}},
                                   .coarse = {52, 84, 98, 112, 28, 152, 70, 129, 1, 59, 141, 93, 78, 108, 122, 197},
                                   .fine = {13, 0, 31, 19}};

constexpr TrellisCode kTrellis4 = {.bits = 4,
                                   .window_bits = 10,
                                   .hash_bits = 7,
                                   .mixes = 2,
                                   .offset = 125,
                                   .step = 0.0252690f,
                                   .mix = {{41, 95, 7, 92, 79, 2, 4, 14, 15, 27, 114, 39, 22, 16, 124, 63},
                                           {118, 118, 118, 118, 104, 104, 104, 104, 50, 50, 50, 50, 85, 85, 85, 85}},
                                   .coarse = {157, 48, 144, 85, 78, 92, 133, 69, 36, 123, 1, 107, 99, 115, 59, 193},
                                   .fine = {0, 29, 21, 15, 55, 27, 42, 35}};

constexpr TrellisCode kLongTrellis3 = {.bits = 3,
                                       .window_bits = 15,
                                       .hash_bits = 7,
                                       .mixes = 4,
                                       .offset = 122,
                                       .step = 0.0237680f,
                                       .mix = {{20, 106, 32, 37, 60, 41, 124, 90, 0, 0, 0, 0, 0, 0, 0, 0},
                                               {20, 26, 64, 104, 100, 98, 80, 2, 0, 0, 0, 0, 0, 0, 0, 0},
                                               {19, 13, 59, 48, 2, 99, 43, 99, 0, 0, 0, 0, 0, 0, 0, 0},
                                               {94, 111, 74, 33, 84, 112, 88, 50, 0, 0, 0, 0, 0, 0, 0, 0}},
                                       .coarse = {90, 109, 124, 186, 74, 147, 61, 45, 142, 70, 44, 96, 111, 1, 84, 118},
                                       .fine = {0, 14, 23, 29, 41, 34, 47, 58}};

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

const TrellisCode& long_trellis_code() {
  return kLongTrellis3;
}

}  // namespace kvasir
