// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/codebook.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kvasir/error.h"
#include "quant/density.h"

namespace kvasir {
namespace {

// E (x - level of its cell)^2 for ascending levels and the nearest-level rule.
double exact_mse(const Density& density, const std::vector<double>& levels) {
  double mse = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const Moments m = density.cell(levels, i);
    mse += m.m2 - 2 * levels[i] * m.m1 + levels[i] * levels[i] * m.m0;
  }
  return mse;
}

LloydMaxExact lloyd_max(int bits, const Density& density) {
  const int n = 1 << bits;
  LloydMaxExact result;
  result.levels.resize(size_t(n));
  // Any symmetric start inside the density converges.
  for (int i = 0; i < n; ++i) result.levels[size_t(i)] = std::min(4.0, density.radius()) * (2.0 * i + 1 - n) / n;
  // Levels to centroids, edges to midpoints. Linear convergence: 1e5 rounds reach 1e-12 at 6 bits within milliseconds.
  for (int round = 0; round < 100000; ++round) {
    double moved = 0;
    std::vector<double> next = result.levels;
    for (int i = 0; i < n; ++i) {
      const Moments m = density.cell(result.levels, size_t(i));
      next[size_t(i)] = m.m1 / m.m0;
      moved = std::max(moved, std::abs(next[size_t(i)] - result.levels[size_t(i)]));
    }
    result.levels = next;
    if (moved < 1e-10) break;
  }
  result.mse = exact_mse(density, result.levels);
  return result;
}

void set_edges(Codebook& book) {
  book.edges.clear();
  for (int i = 0; i + 1 < book.levels(); ++i) book.edges.push_back(0.5f * (book.value(i) + book.value(i + 1)));
}

// The rounded table of the step that loses least. Candidates: the top level sits on 127, 126, ... so the grid is
// always nearly full; a coarser grid never wins by enough to matter.
Codebook on_grid(int bits, const Density& density) {
  const LloydMaxExact exact = lloyd_max(bits, density);
  Codebook best;
  double best_mse = 1e300;
  for (int top = 127; top >= 96; --top) {
    Codebook book;
    book.bits = bits;
    book.offset = 128;
    const double step = exact.levels.back() / top;
    std::vector<double> rounded;
    for (int i = 0; i < book.levels(); ++i) {
      const int grid = int(std::lround(exact.levels[size_t(i)] / step));
      book.level[size_t(i)] = uint8_t(128 + grid);
      rounded.push_back(grid * step);
    }
    const double mse = exact_mse(density, rounded);
    if (mse < best_mse) {
      best_mse = mse;
      book.step = float(step);
      best = book;
    }
  }
  set_edges(best);
  return best;
}

Codebook equidistant(int bits, int offset) {
  Codebook book;
  book.bits = bits;
  book.offset = offset;
  book.identity = true;
  for (int i = 0; i < book.levels(); ++i) book.level[size_t(i)] = uint8_t(i);
  set_edges(book);
  return book;
}

template <class Make>
std::vector<Codebook> table(int first, int last, Make make) {
  std::vector<Codebook> books(size_t(last) + 1);
  for (int bits = first; bits <= last; ++bits) books[size_t(bits)] = make(bits);
  return books;
}

const Codebook& pick(const std::vector<Codebook>& books, int bits) {
  if (bits < 1 || size_t(bits) >= books.size() || books[size_t(bits)].bits == 0)
    throw Error(ErrorCode::internal, "no codebook of " + std::to_string(bits) + " bits");
  return books[size_t(bits)];
}

}  // namespace

int Codebook::code(float x) const {
  return int(std::upper_bound(edges.begin(), edges.end(), x) - edges.begin());
}

double Codebook::gaussian_mse() const {
  std::vector<double> values;
  for (int i = 0; i < levels(); ++i) values.push_back(value(i));
  return exact_mse(Density::normal(), values);
}

LloydMaxExact lloyd_max_exact(int bits, int dim) {
  return dim == 0 ? lloyd_max(bits, Density::normal()) : lloyd_max(bits, Density::sphere(dim));
}

const Codebook& lloyd_max_codebook(int bits) {
  static const std::vector<Codebook> books = table(1, 6, [](int b) { return on_grid(b, Density::normal()); });
  return pick(books, bits);
}

const Codebook& lloyd_max_codebook(int bits, int dim) {
  if (bits < 1 || bits > 6) throw Error(ErrorCode::internal, "no codebook of " + std::to_string(bits) + " bits");
  static std::mutex mutex;
  static std::map<std::pair<int, int>, Codebook> books;
  const std::lock_guard lock(mutex);
  const auto found = books.find({bits, dim});
  if (found != books.end()) return found->second;
  return books.emplace(std::pair(bits, dim), on_grid(bits, Density::sphere(dim))).first->second;
}

const Codebook& uniform_codebook(int bits) {
  static const std::vector<Codebook> books = table(1, 8, [](int b) { return equidistant(b, 0); });
  return pick(books, bits);
}

const Codebook& symmetric_codebook(int bits) {
  static const std::vector<Codebook> books = table(2, 8, [](int b) { return equidistant(b, 1 << (b - 1)); });
  return pick(books, bits);
}

const Codebook& sign_codebook() {
  static const Codebook book = [] {
    Codebook signs;
    signs.bits = 1;
    signs.offset = 1;
    signs.level[0] = 0;
    signs.level[1] = 2;
    set_edges(signs);
    return signs;
  }();
  return book;
}

}  // namespace kvasir
