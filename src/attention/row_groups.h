// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows that share a kernel's loads, in groups whose size the compiler knows. For files of one instruction set only:
// everything here is internal to the file that includes it (page_view.h says why).
#pragma once

namespace kvasir {
namespace {

template <int N>
struct Constant {
  static constexpr int value = N;
};

constexpr int kMostRows = 8;  // that share one reading of the levels: as many sums as leave registers for the rest

// Calls visit(Constant<R>, first row) until all rows had their turn: groups of 8, 4, 3, 2 and 1.
template <class Visit>
inline void in_row_groups(int rows, Visit visit) {
  int r = 0;
  for (; rows - r >= kMostRows; r += kMostRows) visit(Constant<kMostRows>{}, r);
  if (rows - r >= 4) {
    visit(Constant<4>{}, r);
    r += 4;
  }
  if (rows - r == 3) return visit(Constant<3>{}, r);
  if (rows - r == 2) return visit(Constant<2>{}, r);
  if (rows - r == 1) return visit(Constant<1>{}, r);
}

template <int Most, class Visit>
inline void visit_rest(int left, int r, Visit visit) {
  if constexpr (Most > 0) {
    if (left == Most) return visit(Constant<Most>{}, r);
    visit_rest<Most - 1>(left, r, visit);
  }
}

// The same in groups of `Most`, and one of what is left.
template <int Most, class Visit>
inline void in_groups_of(int rows, Visit visit) {
  int r = 0;
  for (; rows - r >= Most; r += Most) visit(Constant<Most>{}, r);
  visit_rest<Most - 1>(rows - r, r, visit);
}

}  // namespace
}  // namespace kvasir
