// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "attention/head_view.h"
#include "attention/kernels.h"
#include "attention/query_rows.h"

namespace kvasir {

// Unnormalised attention of some rows over some of the past: running maximum, sum of exponentials, and the weighted
// values in two bases, since windows are stored unmapped and pages mapped. Parts of the same rows merge by
// log-sum-exp in any order.
struct Partial {
  int rows = 0;
  std::vector<float> max, sum;  // [rows]
  std::vector<float> raw;       // [rows, value_dim]
  std::vector<float> mapped;    // [rows, mapped_dim]

  void reset(const QueryRows& queries, int value_dim, int mapped_dim);
};

// A slice of the past: which of the view's runs to read.
struct Slice {
  bool sink = true, recent = true;
  int first_page = 0, last_page = 0;  // [first, last)
};

// Reads the slice for every row of the block, on any of the two kernel paths (few rows: integer domain; many: tiles).
void attend_slice(const Kernels& kernels, const HeadView& view, const QueryBlock& block, const QueryRows& queries,
                  const Slice& slice, Partial& partial);

// Merges parts of the same rows, maps the output back once and writes it: rows [first_row, last_row).
void finish(const Kernels& kernels, const HeadView& view, const QueryBlock& block, const Partial* parts, int count,
            int first_row, int last_row);

}  // namespace kvasir
