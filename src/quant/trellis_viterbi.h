// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The body of search_trellis (quant/trellis_search.h). Included only by trellis_search*.cpp; everything is internal to
// the file, since each is compiled for another instruction set. Includers define before, for their vectors of integers,
// high_product(a, b): a b / 2^16, rounded down.
#pragma once

#include "quant/trellis_search.h"

namespace kvasir {
namespace {

// One step of all states for as many sequences as Lanes has. Arrays of lanes are strided: [..][32], of which Lanes are
// a part. `floor` is taken off what the step adds, so that costs stay small; returns the least cost after it.
template <int Bits, class Lanes>
inline Lanes add_step(const TrellisPlan& plan, const int16_t* x, Lanes floor, const int16_t* __restrict cost,
                      int16_t* __restrict next, uint16_t* __restrict choices) {
  using F = TrellisFields<Bits>;
  constexpr int kBranches = F::kBranches;
  // The low bits of a cost carry the branch that it came by: the smaller cost brings its branch along, ties go to the
  // smaller branch. Squares lose those bits, which is far below what tells two paths apart.
  const Lanes mask = Lanes{} + int16_t(kBranches - 1);
  const Lanes reach = Lanes{} + plan.reach, far = Lanes{} + plan.far;
  const auto load = [](const int16_t* lanes) { return *reinterpret_cast<const Lanes*>(lanes); };
  const int states = trellis_states(Bits, plan.window_bits), tails = states / kBranches;
  alignas(64) int16_t squares[kTrellisHashes * kTrellisLanes];
  const Lanes target = load(x), loudness = load(x + kTrellisLanes);
  for (int h = 0; h < plan.hashes; ++h) {
    Lanes difference = high_product(target - plan.value[h], loudness);
    difference = difference < reach ? difference : reach;
    difference = difference > -reach ? difference : -reach;
    *reinterpret_cast<Lanes*>(squares + h * kTrellisLanes) = ((difference * difference) & ~mask) - floor;
  }
  Lanes least = far;
  Lanes word = {};
  int field = 0;
  for (int tail = 0; tail < tails; ++tail) {
    Lanes from[kBranches];
#pragma GCC unroll 16
    for (int branch = 0; branch < kBranches; ++branch)
      from[branch] = load(cost + (tail * kBranches + branch) * kTrellisLanes) | int16_t(branch);
    for (int code = 0; code < kBranches; ++code) {
      const int state = code * tails + tail;
      const uint16_t* hash = plan.hash + state * kBranches;
      Lanes best = from[0] + load(squares + hash[0]);
#pragma GCC unroll 16
      for (int branch = 1; branch < kBranches; ++branch) {
        const Lanes other = from[branch] + load(squares + hash[branch]);
        best = other < best ? other : best;
      }
      word = word << F::kBits | (best & mask);
      if (++field == F::kFields) {
        *reinterpret_cast<Lanes*>(choices) = word;
        choices += kTrellisLanes;
        field = 0;
      }
      best &= ~mask;
      best = best < far ? best : far;
      *reinterpret_cast<Lanes*>(next + state * kTrellisLanes) = best;
      least = best < least ? best : least;
    }
  }
  return least;
}

template <int Bits, class Lanes>
inline void search_lanes(const TrellisPlan& plan, const int16_t* x, int steps, int16_t* cost, uint16_t* choices) {
  const int states = trellis_states(Bits, plan.window_bits), words = trellis_words(Bits, plan.window_bits);
  int16_t* next = cost + states * kTrellisLanes;
  Lanes least = {};
  for (int step = 0; step < steps; ++step) {
    least = add_step<Bits, Lanes>(plan, x + step * 2 * kTrellisLanes, least, cost, next,
                                  choices + ptrdiff_t(step) * words * kTrellisLanes);
    int16_t* const swap = cost;
    cost = next;
    next = swap;
  }
}

// The state of least cost, of equals the first.
template <class Lanes>
inline void best_states(int states, const int16_t* cost, uint16_t* state) {
  constexpr int kLanes = int(sizeof(Lanes) / sizeof(int16_t));
  for (int lane = 0; lane < kTrellisLanes; lane += kLanes) {
    Lanes best = *reinterpret_cast<const Lanes*>(cost + lane), at = {};
    for (int other = 1; other < states; ++other) {
      const Lanes here = *reinterpret_cast<const Lanes*>(cost + other * kTrellisLanes + lane);
      at = here < best ? Lanes{} + int16_t(other) : at;
      best = here < best ? here : best;
    }
    *reinterpret_cast<Lanes*>(state + lane) = at;
  }
}

// Back from `state` after the last step to the state before step `first`.
template <int Bits>
inline void trace_back(const TrellisPlan& plan, int first, int steps, const uint16_t* choices, uint16_t* state,
                       uint8_t* codes) {
  using F = TrellisFields<Bits>;
  const int words = trellis_words(Bits, plan.window_bits);
  const int tail_bits = plan.window_bits - 2 * Bits, tails = 1 << tail_bits;
  for (int step = steps - 1; step >= first; --step) {
    const uint16_t* at = choices + ptrdiff_t(step) * words * kTrellisLanes;
    // Loops of their own, since all but the one that picks words are vectors to the compiler.
    uint16_t place[kTrellisLanes], shift[kTrellisLanes], word[kTrellisLanes];
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      const unsigned code = unsigned(state[lane]) >> tail_bits, tail = unsigned(state[lane]) & unsigned(tails - 1);
      const unsigned order = tail << Bits | code;  // in which add_step wrote the choices
      place[lane] = uint16_t(order / F::kFields * kTrellisLanes + unsigned(lane));
      shift[lane] = uint16_t(F::kBits * (F::kFields - 1 - order % F::kFields));
      codes[step * kTrellisLanes + lane] = uint8_t(code);
    }
    for (int lane = 0; lane < kTrellisLanes; ++lane) word[lane] = at[place[lane]];
    for (int lane = 0; lane < kTrellisLanes; ++lane) {
      const unsigned tail = unsigned(state[lane]) & unsigned(tails - 1);
      state[lane] = uint16_t(tail << Bits | (unsigned(word[lane]) >> shift[lane] & (F::kBranches - 1)));
    }
  }
}

template <int Bits, class Lanes>
inline void search_with(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                        int16_t* cost, uint16_t* choices, uint8_t* codes) {
  constexpr int kLanes = int(sizeof(Lanes) / sizeof(int16_t));
  const int states = trellis_states(Bits, plan.window_bits);
  for (int i = 0; i < states * kTrellisLanes; ++i) cost[i] = open ? int16_t(0) : plan.far;
  for (int lane = 0; !open && lane < kTrellisLanes; ++lane) cost[state[lane] * kTrellisLanes + lane] = 0;
  for (int lane = 0; lane < kTrellisLanes; lane += kLanes)
    search_lanes<Bits, Lanes>(plan, x + lane, steps, cost + lane, choices + lane);
  // search_lanes swaps its two halves of `cost` at each step.
  if (open) best_states<Lanes>(states, cost + steps % 2 * states * kTrellisLanes, state);
  trace_back<Bits>(plan, first, steps, choices, state, codes);
}

template <class Lanes>
inline void search_with(const TrellisPlan& plan, const int16_t* x, int first, int steps, bool open, uint16_t* state,
                        int16_t* cost, uint16_t* choices, uint8_t* codes) {
  switch (plan.bits) {
    case 1: return search_with<1, Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
    case 2: return search_with<2, Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
    case 3: return search_with<3, Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
    default: return search_with<4, Lanes>(plan, x, first, steps, open, state, cost, choices, codes);
  }
}

}  // namespace
}  // namespace kvasir
