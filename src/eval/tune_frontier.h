// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The allocation of bits: which candidate each unit (a side of a group of layers) takes, for every trade of bits
// against divergence that is worth having. Knows of no model.
//
// Divergences of units are taken to add, as small and independent errors do to first order. Then the lower convex hull
// of all choices is the Minkowski sum of the units' own hulls: start with every unit's cheapest candidate and take the
// steps of those hulls in the order of their fall in divergence per bit (Shoham and Gersho, 1988). No choice lies below
// that line, though some that aren't on it lie between two of its points.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kvasir {

// One candidate of one unit. `bits` is what it adds to the bits per value of the whole cache: its own bits times the
// unit's share of all values.
struct TuneCell {
  double bits = 0;
  double kld = 0;  // infinite or NaN: the candidate can't be used
};

struct FrontierPoint {
  double bits = 0, kld = 0;  // sums over the units
  std::vector<int> choice;   // a candidate for each unit

  bool operator==(const FrontierPoint&) const = default;
};

// The candidates of one unit that lie on its lower convex hull, from the cheapest on: bits rise, divergence falls, and
// each step falls less per bit than the one before. Measured divergences are noisy: a candidate that costs more and is
// no better than another is left out.
std::vector<int> convex_candidates(std::span<const TuneCell> cells);

// From the cheapest choice to the one of least divergence, a unit's step at a time. `table` is [unit][candidate].
// Throws Error invalid_argument if the table is empty or a unit has no candidate that can be used.
std::vector<FrontierPoint> tune_frontier(const std::vector<std::vector<TuneCell>>& table);

// The index of the point of least divergence with at most `bits`, or of the cheapest one with a divergence of at most
// `kld`. Throws Error invalid_argument where there is none; the message names what can be reached.
size_t point_for_bits(std::span<const FrontierPoint> frontier, double bits);
size_t point_for_kld(std::span<const FrontierPoint> frontier, double kld);

// What is wrong with --bits where not even `cheapest` fits.
std::string too_few_bits(double bits, double cheapest, double dearest);

}  // namespace kvasir
