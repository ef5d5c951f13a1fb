// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages of random codes and their values in double precision, for tests of kernels. Codes are drawn, not encoded: that
// reaches every level and every scale, and needs no encoder.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attention/kernels.h"
#include "base/random.h"

namespace kvasir::test {

struct SamplePage {
  SideLayout layout;
  std::vector<std::byte> bytes;
  // All [64 tokens][mapped channels]:
  std::vector<double> value;
  std::vector<double> magnitude;  // |level part| + |zero point| + |mean|: what rounding errors are relative to
  std::vector<double> level;      // (level - offset) * step of packed segments, 0 for raw ones
  std::vector<double> scale;      // what multiplies it

  int dim() const { return layout.mapped_dim(); }
  size_t at(int token, int channel) const { return size_t(token) * size_t(dim()) + size_t(channel); }
};

SamplePage sample_page(const Codec& codec, uint64_t seed);

// Codecs that the registry doesn't have but the data structure allows: all bit widths, several segments with raw ones
// among them, channel scales on values, a centered value side.
std::vector<Codec> unusual_codecs(Side side);

std::vector<float> random_floats(size_t n, SplitMix& random);
// Positive, with exact zeros among them and a range of e^-12 .. 1, as softmax makes them.
std::vector<float> random_weights(size_t n, SplitMix& random);
std::vector<uint16_t> random_halves(HalfKind kind, size_t n, SplitMix& random);

std::vector<SimdLevel> available_levels();
std::string name_of(SimdLevel level);

// Expects |actual[i] - expected[i]| <= tolerance[i]; reports the worst index only.
void expect_near(const std::string& what, const std::vector<float>& actual, const std::vector<double>& expected,
                 const std::vector<double>& tolerance);

}  // namespace kvasir::test
