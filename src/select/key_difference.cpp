// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "select/key_difference.h"

#include <cmath>
#include <cstddef>

namespace kvasir {
namespace {

double norm(const double* x, size_t dim) {
  double energy = 0;
  for (size_t c = 0; c < dim; ++c) energy += x[c] * x[c];
  return std::sqrt(energy);
}

}  // namespace

std::vector<float> key_difference_scores(std::span<const float> keys, int dim) {
  const size_t width = size_t(dim), tokens = keys.size() / width;
  std::vector<double> unit(keys.begin(), keys.end()), anchor(width, 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    const double length = norm(&unit[t * width], width);
    for (size_t c = 0; c < width; ++c) {
      unit[t * width + c] = length > 0 ? unit[t * width + c] / length : 0.0;
      anchor[c] += unit[t * width + c];
    }
  }
  const double length = norm(anchor.data(), width);
  std::vector<float> scores(tokens);
  for (size_t t = 0; t < tokens; ++t) {
    double dot = 0;
    for (size_t c = 0; c < width; ++c) dot += unit[t * width + c] * anchor[c];
    scores[t] = float(1.0 - (length > 0 ? dot / length : 0.0));
  }
  return scores;
}

}  // namespace kvasir
