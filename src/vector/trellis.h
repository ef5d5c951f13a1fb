// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Trellis-coded quantization: the same b bits a channel, with a squared error that is a third smaller than that of the
// best levels for one channel alone. A code doesn't name a level by itself: the last 8 bits of the codes so far do,
//
//   window = (window >> b) | (code << (8 - b)),   value = level[window],
//
// so each channel chooses among 2^b of 256 levels, and the choices before decide which. (A tail-biting-free bitshift
// trellis, as in QTIP, arXiv 2406.11235.) Encoding finds the codes of the whole vector with the least squared error
// (Viterbi); decoding looks at one byte.
//
// A vector is four independent sequences, one for each place in a group of 4 channels: channel j is step j / 4 of
// sequence j mod 4, and windows start as zero. In code_layout.h the last 8 bits of a sequence then are two neighbouring
// bytes of one lane, and no lane needs another's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvasir {

struct TrellisLevels {
  float step;  // value = step level[window], for channels of unit variance
  std::array<int8_t, 256> level;
};
extern const TrellisLevels kTrellis2, kTrellis4;  // 2 and 4 bits

inline constexpr int kTrellisSequences = 4;  // of a vector
inline constexpr int kTrellisLanes = 16;     // sequences that are encoded at once: 4 vectors
inline constexpr int kTrellisScale = 32;     // integers of a channel in one step of the levels
inline constexpr int kTrellisLargest = 127 * kTrellisScale;

// Codes [channels] into windows, in place.
inline void to_windows(int bits, int channels, uint8_t* codes) {
  uint8_t window[kTrellisSequences] = {};
  for (int j = 0; j < channels; ++j) {
    uint8_t& last = window[j % kTrellisSequences];
    last = uint8_t((last >> bits) | (codes[j] << (8 - bits)));
    codes[j] = last;
  }
}

// 32-bit words that encode_trellis (scan.h) needs to remember its choices.
inline constexpr size_t trellis_scratch(int steps) {
  return size_t(steps) * 4 * kTrellisLanes;
}

}  // namespace kvasir
