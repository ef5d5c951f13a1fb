// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What a codec does to vectors, page by page through the same encoder and decoder that the cache uses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "eval/divergence_summary.h"
#include "kvasir/codec.h"

namespace kvasir {

// One side of one codec over many vectors x with errors e = x^ - x. "Energy" is the sum of |x - m|^2, m the page mean
// that the codec stores (zero if it stores none): what the quantizer really gets.
struct Distortion {
  int64_t vectors = 0;
  double mse = 0;        // sum |e|^2 / energy
  double mse_input = 0;  // sum |e|^2 / sum |x|^2: the same unless a mean was removed
  // Relative bias of scores: the mean of <q, e> over the mean of <q, x - m>, for queries q = x - m + |x - m| g/sqrt(d),
  // g normal: half along the key, half anywhere.
  MeanError ip_bias;
  // d Var <q, e> / (|q|^2 |x - m|^2) for directions q that don't depend on x.
  double ip_var = 0;

  // Absent where no exact value is known (raw, min-max and largest-value scales, sorted channels). Errors have no
  // preferred direction on normal vectors, so theory_mse is ip_var's as well.
  std::optional<double> theory_mse, theory_bias;
  std::optional<double> gaussian_mse;  // of the codebook on normal numbers; theory_mse is this times the scale's effect
};

// Fills `page` with 64 vectors [64, dim]; called from several threads, with different page numbers.
using PageSource = std::function<void(int64_t page, float* x)>;

// Independent normal numbers, a pure function of seed and page.
PageSource gaussian_pages(int dim, uint64_t seed);
// What breaks quantizers, each a pure function of seed and page: one channel of a vector is normal and the rest 0; all
// channels of a vector are the same normal number; normal numbers, but four channels, the same for all vectors, are 20
// times as large.
PageSource spike_pages(int dim, uint64_t seed);
PageSource constant_pages(int dim, uint64_t seed);
PageSource outlier_pages(int dim, uint64_t seed);
// Rows [rows, dim] of a file, the last page dropped if it isn't full.
PageSource given_pages(int dim, std::span<const float> rows);

// `seed` draws the queries. `with_theory`: the vectors are normal.
Distortion measure_distortion(const Codec& codec, const PageSource& source, int64_t pages, uint64_t seed, int threads,
                              bool with_theory);

// Bits of codes alone, averaged over channels; 16 for raw codecs.
double code_bits(const Codec& codec);

}  // namespace kvasir
