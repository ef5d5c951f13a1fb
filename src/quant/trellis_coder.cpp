// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/trellis_coder.h"

#include <algorithm>

#include "base/processor.h"

namespace kvasir {
namespace {

// Steps on each side of the place where a sequence closes that decide about the state there. Twice as many would win
// another 1 % of the squared error at 2 bits and 128 steps, half as many lose that.
constexpr int kMostSeam = 32;
int seam_of(const TrellisCode& code) {
  return std::min(kMostSeam, 8 + 8 * ((code.window_bits - 1) / code.bits));
}

constexpr size_t kAlignment = 64;
constexpr size_t kAlignedWords = kAlignment / sizeof(int16_t);

// Units of x in one of a cost's root. The search sees differences up to kTrellisReach of those and costs in multiples
// of 2^b of their squares: fine enough that a typical error is 10 to 50 of these, coarse enough that no path that could
// win is cut off.
constexpr float kFine = 24;
constexpr float kReach[] = {0, 4.0f, 1.75f, 1.2f, .8f};  // standard deviations

constexpr float kQuietest = .25f, kLoudest = 2.0f;

int16_t nearest(float x) {
  return int16_t(x < 0 ? int(x - 0.5f) : int(x + 0.5f));
}

TrellisSearch best_search() {
#ifdef KVASIR_X86
  if (processor_has_avx512()) return avx512::search_trellis;
  if (processor_has_avx2()) return avx2::search_trellis;
#endif
  return search_trellis;
}

}  // namespace

int16_t* TrellisScratch::words(size_t count) {
  if (room_.size() < count + kAlignedWords) room_.resize(count + kAlignedWords);
  const auto address = reinterpret_cast<uintptr_t>(room_.data());
  return room_.data() + (kAlignment - address % kAlignment) % kAlignment / sizeof(int16_t);
}

TrellisCoder::TrellisCoder(const TrellisCode& code) : code_(code) {
  scale_ = kFine * kTrellisReach / kReach[code.bits];
  for (int hash = 0; hash < 1 << code.hash_bits; ++hash) {
    const int level = code.coarse[hash & 15] + code.fine[hash >> 4];
    value_.push_back(nearest(code.value(level) * scale_));
  }
  for (int window = 0; window < code.windows(); ++window) {
    hash_.push_back(uint16_t(code.hash(window) * kTrellisLanes));
    level_.push_back(uint8_t(code.level(window)));
  }
  low_ = *std::min_element(value_.begin(), value_.end());
  high_ = *std::max_element(value_.begin(), value_.end());
  plan_ = {code.bits, code.window_bits, int(value_.size()), kTrellisReach, kTrellisFar, value_.data(), hash_.data()};
}

const TrellisCoder& TrellisCoder::of(int bits) {
  static const TrellisCoder encoders[] = {TrellisCoder(trellis_code(1)), TrellisCoder(trellis_code(2)),
                                          TrellisCoder(trellis_code(3)), TrellisCoder(trellis_code(4))};
  return encoders[bits - 1];
}

void TrellisCoder::encode(const float* x, const float* loudness, int steps, TrellisScratch& scratch,
                          uint8_t* codes) const {
  static const TrellisSearch search = best_search();
  encode(x, loudness, steps, scratch, codes, search);
}

void TrellisCoder::encode(const float* x, const float* loudness, int steps, TrellisScratch& scratch, uint8_t* codes,
                          TrellisSearch search) const {
  const size_t lanes = kTrellisLanes, states = size_t(trellis_states(code_.bits, code_.window_bits));
  const size_t words = size_t(trellis_words(code_.bits, code_.window_bits));
  const int seam = seam_of(code_);
  const size_t room = size_t(std::max(steps, 2 * seam)), around_steps = size_t(2 * seam);
  int16_t* target = scratch.words((2 * size_t(steps) + 2 * around_steps + room * words + 2 * states) * lanes);
  int16_t* around = target + 2 * size_t(steps) * lanes;
  int16_t* cost = around + 2 * around_steps * lanes;
  auto* choices = reinterpret_cast<uint16_t*>(cost + 2 * states * lanes);
  to_integers(x, loudness, steps, target);

  // Where a circle begins doesn't matter far away from it: the state there is the one that the best path through the
  // last and the first steps takes.
  for (int i = 0; i < 2 * seam; ++i) {
    const int step = ((i - seam) % steps + steps) % steps;
    std::copy_n(target + size_t(step) * 2 * lanes, 2 * lanes, around + size_t(i) * 2 * lanes);
  }
  uint8_t codes_around[2 * kMostSeam * kTrellisLanes];
  alignas(kAlignment) uint16_t state[kTrellisLanes];
  search(plan_, around, seam, 2 * seam, true, state, cost, choices, codes_around);
  search(plan_, target, 0, steps, false, state, cost, choices, codes);
}

void TrellisCoder::to_integers(const float* x, const float* loudness, int steps, int16_t* out) const {
  const float low = low_, high = high_, one = 65536 / kFine;
  for (int step = 0; step < steps; ++step, x += kTrellisLanes, out += 2 * kTrellisLanes) {
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      const float loud = loudness ? std::min(std::max(loudness[step * kTrellisLanes + lane], kQuietest), kLoudest) : 1;
      // The sum isn't negative, so that the conversion rounds to the nearest; then half of what the product is over.
      const int value = low_ + int(std::min(std::max(x[lane] * scale_, low), high) - low + 0.5f);
      out[lane] = int16_t(value + int(kFine / 2 / loud));
      out[kTrellisLanes + lane] = int16_t(one * loud);
    }
  }
}

void TrellisCoder::decode(const uint8_t* before, const uint8_t* codes, int steps, uint8_t* levels) const {
  int window[kTrellisLanes] = {};
  const auto push = [&](const uint8_t* now) {
    for (int lane = 0; lane < kTrellisLanes; ++lane)
      window[lane] = window[lane] >> code_.bits | now[lane] << (code_.window_bits - code_.bits);
  };
  for (int step = 0; step < kTrellisBefore; ++step) push(before + step * kTrellisLanes);
  for (int step = 0; step < steps; ++step, codes += kTrellisLanes, levels += kTrellisLanes) {
    push(codes);
    for (int lane = 0; lane < kTrellisLanes; ++lane) levels[lane] = level_[size_t(window[lane])];
  }
}

}  // namespace kvasir
