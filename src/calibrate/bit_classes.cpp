// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bit_classes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kvasir/codec.h"
#include "kvasir/error.h"
#include "quant/codebook.h"

namespace kvasir {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostBits = 6;  // of a Lloyd-Max codebook

// The best way to end at (cell, bytes, classes) with a last class of `bits`.
struct Step {
  double error = kNever;
  int first_cell = 0, bits = 0;  // of the last class
};

}  // namespace

double class_distortion(int bits, int channels) {
  static const std::array<double, kMostBits + 1> lloyd_max = [] {
    std::array<double, kMostBits + 1> values{1.0};
    for (int b = 1; b <= kMostBits; ++b) values[size_t(b)] = lloyd_max_codebook(b).gaussian_mse();
    return values;
  }();
  // Measured on N(0,1) with the two blocks of a page as one circle, 64 steps (tests/quant/trellis_test.cpp).
  constexpr double kTrellis[] = {1.0, 1.20 / 4, 1.22 / 16, 1.29 / 64, 1.43 / 256};
  return trellis_coded(bits, channels) ? kTrellis[bits] : lloyd_max.at(size_t(bits));
}

std::vector<BitClass> choose_classes(const std::vector<double>& variance, const ClassBudget& budget) {
  const int cells = int(variance.size()) / kCellChannels;
  std::vector<double> ahead(size_t(cells) + 1, 0.0);  // variance of the cells before
  for (int cell = 0; cell < cells; ++cell) {
    ahead[size_t(cell) + 1] = ahead[size_t(cell)];
    for (int c = 0; c < kCellChannels; ++c) ahead[size_t(cell) + 1] += variance[size_t(cell * kCellChannels + c)];
  }
  // best[n][cell][bytes]: n classes over the cells before `cell` with exactly that many bytes. A cell of b bits takes b
  // bytes a token.
  const int most = std::min(budget.max_classes, cells);
  const auto at = [&](int n, int cell, int bytes) {
    return (size_t(n) * size_t(cells + 1) + size_t(cell)) * size_t(budget.bytes + 1) + size_t(bytes);
  };
  std::vector<Step> best(at(most, cells, budget.bytes) + 1);
  best[at(0, 0, 0)].error = 0;
  for (int n = 1; n <= most; ++n)
    for (int first = 0; first < cells; ++first)
      for (int used = 0; used <= budget.bytes; ++used) {
        const double before = best[at(n - 1, first, used)].error;
        if (before == kNever) continue;
        for (int last = first + 1; last <= cells; ++last)
          for (int bits = 1; bits <= std::min(budget.most_bits, kMostBits); ++bits) {
            const int bytes = used + bits * (last - first) + budget.scale_bytes;
            if (bytes > budget.bytes) break;
            const double error = before + class_distortion(bits, (last - first) * kCellChannels) *
                                              (ahead[size_t(last)] - ahead[size_t(first)]);
            Step& step = best[at(n, last, bytes)];
            if (error < step.error) step = {error, first, bits};
          }
      }
  double least = kNever;
  int n = 0, cell = 0, bytes = 0;
  for (int count = budget.min_classes; count <= most; ++count)
    for (int last = 0; last <= cells; ++last)
      for (int used = 0; used <= budget.bytes; ++used) {
        const double error = best[at(count, last, used)].error + ahead[size_t(cells)] - ahead[size_t(last)];
        if (error < least) {
          least = error;
          n = count;
          cell = last;
          bytes = used;
        }
      }
  if (least == kNever)
    throw Error(ErrorCode::unsupported,
                "a spectral codec of so few bytes doesn't hold a single class: choose more bits or bytes=");
  std::vector<BitClass> classes;
  while (n > 0) {
    const Step& step = best[at(n, cell, bytes)];
    classes.push_back({step.first_cell * kCellChannels, (cell - step.first_cell) * kCellChannels, step.bits});
    bytes -= step.bits * (cell - step.first_cell) + budget.scale_bytes;
    cell = step.first_cell;
    --n;
  }
  std::reverse(classes.begin(), classes.end());
  return classes;
}

}  // namespace kvasir
