// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What the turns of a long talk cost, by stretches of it, and from which turn on one way of keeping it is the cheaper
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvasir {

// One turn of one way. Times are in seconds.
struct TurnCost {
  double prepare = 0;       // until the message can be read: routing, catching up, rebuilding
  double read = 0;          // the message, up to the answer's first token
  double generate = 0;      // the other tokens of the answer
  double finish = 0;        // the turn becomes part of the past
  bool clustered = false;   // the past was clustered anew and read for each episode
  bool selected = false;    // the episode was selected from again
  bool opened = false;      // a new episode; not the first turn's
  int episode = 0;          // that answered; 0 for other ways
  int64_t talk_tokens = 0;  // of the talk after the turn, the same in all ways
  int64_t decoded = 0;      // in this turn, whatever for
  int64_t prompts = 0;      // of those, in prompts that tokens are judged by
  size_t bytes = 0;         // of all caches after the turn
  size_t peak_bytes = 0;    // and the most during it

  double first_token() const { return prepare + read; }
  double total() const { return prepare + read + generate + finish; }
  // The part of it that made episodes anew.
  double rebuild() const { return clustered || selected ? prepare : 0; }
};

struct WayTimes {
  std::string name;
  std::vector<TurnCost> turns;
};

struct Stretch {
  size_t first = 0, last = 0;  // turns, counted from 1
  bool operator==(const Stretch&) const = default;
};
// At most six, longer ones later: of 300 turns 1-25, 26-50, 51-100, 101-150, 151-200 and 201-300.
std::vector<Stretch> stretches(size_t turns);

double median(std::vector<double> values);  // 0 of none
double mean(std::span<const double> values);

std::vector<double> turn_seconds(const WayTimes& way);
std::span<const double> within(std::span<const double> turns, const Stretch& stretch);

inline constexpr size_t kBreakEvenWindow = 25;

// The turn (counted from 1) from which on, to the last one, `ours` is cheaper than `theirs`; none if it isn't in the
// end. By the median over the last `window` turns, so not before that one; by the time of all turns so far.
std::optional<size_t> break_even_by_median(std::span<const double> ours, std::span<const double> theirs,
                                           size_t window = kBreakEvenWindow);
std::optional<size_t> break_even_by_total(std::span<const double> ours, std::span<const double> theirs);

}  // namespace kvasir
