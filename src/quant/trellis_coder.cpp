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

// Units of the search in one step of the levels. The search sees differences up to kTrellisReach units and costs in
// multiples of 2^b squared units: fine enough that a typical error is some 20 of those, coarse enough that no path that
// could win is cut off.
int units_of(const TrellisCode& code) {
  const float reach[] = {0, 4.0f, 1.75f, 1.2f, .8f};  // standard deviations
  return std::max(1, int(float(kTrellisReach) * code.step / reach[code.bits]));
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
  const int units = units_of(code);
  scale_ = float(units) / code.step;
  for (int hash = 0; hash < 1 << code.hash_bits; ++hash) {
    const int level = code.coarse[hash & 15] + code.fine[hash >> 4];
    value_.push_back(int16_t((level - code.offset) * units));
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

void TrellisCoder::encode(const float* x, int steps, TrellisScratch& scratch, uint8_t* codes) const {
  static const TrellisSearch search = best_search();
  encode(x, steps, scratch, codes, search);
}

void TrellisCoder::encode(const float* x, int steps, TrellisScratch& scratch, uint8_t* codes,
                          TrellisSearch search) const {
  const size_t lanes = kTrellisLanes, states = size_t(trellis_states(code_.bits, code_.window_bits));
  const size_t words = size_t(trellis_words(code_.bits, code_.window_bits));
  const int seam = seam_of(code_);
  const size_t room = size_t(std::max(steps, 2 * seam));
  int16_t* target = scratch.words((size_t(steps) + room * words + 2 * (size_t(seam) + states)) * lanes);
  int16_t* around = target + size_t(steps) * lanes;
  int16_t* cost = around + 2 * size_t(seam) * lanes;
  auto* choices = reinterpret_cast<uint16_t*>(cost + 2 * states * lanes);
  const float low = low_, high = high_;
  // The sum isn't negative, so that the conversion rounds to the nearest.
  for (size_t i = 0; i < size_t(steps) * lanes; ++i)
    target[i] = int16_t(low_ + int(std::min(std::max(x[i] * scale_, low), high) - low + 0.5f));

  // Where a circle begins doesn't matter far away from it: the state there is the one that the best path through the
  // last and the first steps takes.
  for (int i = 0; i < 2 * seam; ++i) {
    const int step = ((i - seam) % steps + steps) % steps;
    std::copy_n(target + size_t(step) * lanes, lanes, around + size_t(i) * lanes);
  }
  uint8_t codes_around[2 * kMostSeam * kTrellisLanes];
  search(plan_, around, 2 * seam, nullptr, cost, choices, codes_around);
  uint16_t ends[kTrellisLanes];
  for (int lane = 0; lane < kTrellisLanes; ++lane) {
    int window = 0;
    for (int step = 0; step < seam; ++step)
      window = window >> code_.bits | codes_around[step * kTrellisLanes + lane] << (code_.window_bits - code_.bits);
    ends[lane] = uint16_t(window >> code_.bits);
  }
  search(plan_, target, steps, ends, cost, choices, codes);
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
