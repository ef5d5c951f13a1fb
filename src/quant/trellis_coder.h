// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Chooses the codes of 32 sequences with the least squared error (Viterbi, up to the rounding of costs to 16 bits and
// to how the circle is closed), and turns codes into levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "quant/trellis_code.h"
#include "quant/trellis_search.h"

namespace kvasir {

inline constexpr int kTrellisBefore = 8;  // steps that no window reaches back farther than

// Memory that a coder reuses between calls; one a thread. About 2 states steps bytes: 256 KB for 64 channels at 3
// bits.
class TrellisScratch {
 public:
  // 64-byte aligned room for that many 16-bit words, kept until the next call.
  int16_t* words(size_t count);

 private:
  std::vector<int16_t> room_;
};

class TrellisCoder {
 public:
  explicit TrellisCoder(const TrellisCode& code);
  TrellisCoder(const TrellisCoder&) = delete;
  TrellisCoder& operator=(const TrellisCoder&) = delete;

  // The coder of trellis_code(bits), made once.
  static const TrellisCoder& of(int bits);

  const TrellisCode& code() const { return code_; }
  const TrellisPlan& plan() const { return plan_; }
  // x and loudness as the search takes them, [steps][2][32].
  void to_integers(const float* x, const float* loudness, int steps, int16_t* out) const;

  // x, loudness and codes are [steps][32]; x has unit variance or nearly and is finite. What lies outside the levels
  // counts as the outermost level. The squared error is that of x times `loudness`, of which quarter to double count:
  // a path that spares the loud at the cost of the quiet, as if bits moved to them. Null: all are equal. A pure
  // function of x and loudness, whatever the processor.
  void encode(const float* x, const float* loudness, int steps, TrellisScratch& scratch, uint8_t* codes) const;
  void encode(const float* x, const float* loudness, int steps, TrellisScratch& scratch, uint8_t* codes,
              TrellisSearch search) const;

  // Levels of `steps` steps, [steps][32]; `before` holds the codes of the kTrellisBefore steps before them.
  void decode(const uint8_t* before, const uint8_t* codes, int steps, uint8_t* levels) const;

 private:
  TrellisCode code_;
  float scale_ = 1.0f;  // units of the search in one unit of x
  int16_t low_ = 0, high_ = 0;
  std::vector<int16_t> value_;
  // Of each window.
  std::vector<uint16_t> hash_;
  std::vector<uint8_t> level_;
  TrellisPlan plan_{};
};

}  // namespace kvasir
