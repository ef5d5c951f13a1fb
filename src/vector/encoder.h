// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From vectors to codes and scales, and back (include/kvasir/vector.h has the formulas). Encoded bytes are the same on
// every machine and instruction set: whatever decides a code is computed here or in integers, in one order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transform/signed_fwht.h"
#include "vector/code_table.h"
#include "vector/scan.h"

namespace kvasir {

// The smallest multiple of 16 that the rotation takes and that holds `dim` channels.
int rotated_channels(int dim);

// Lengths below this count as zero: their inverse would overflow.
inline constexpr float kSmallestLength = 1e-30f;
inline constexpr float kLargestLength = 1e18f;  // squares stay finite

double squared_length(const float* x, int n);

class VectorEncoder {
 public:
  static constexpr int kRows = 4;  // vectors that are encoded at once

  VectorEncoder(int dim, const CodeTable& table, uint64_t seed);

  int dim() const { return dim_; }
  int channels() const { return map_.dim(); }
  const CodeTable& table() const { return table_; }

  // One worker's memory: rotated vectors to encode, and their codes, [kRows][channels] each.
  struct Workspace {
    std::vector<float> y;
    std::vector<uint8_t> codes;
    std::vector<int32_t> targets, scratch;  // of the trellis
  };
  Workspace workspace() const;

  // y [channels] = T ((x * factor) - mean); mean [dim] or empty.
  void rotate(const float* x, float factor, std::span<const float> mean, float* y) const;
  // Codes of the first `rows` vectors of the workspace; |y| and the unbiased scale |y|^2 / <c, y>, both 0 for a zero
  // vector, into encoded [rows].
  struct Encoded {
    float length = 0.0f, scale = 0.0f;
  };
  void encode(const ScanKernels& kernels, Workspace& workspace, int rows, Encoded* encoded) const;
  // x [dim] = mean + T^T (scale c).
  void decode(const uint8_t* codes, float scale, std::span<const float> mean, float* x) const;

 private:
  void encode_trellis(const ScanKernels& kernels, Workspace& workspace, int rows, const float* factors) const;

  int dim_;
  CodeTable table_;
  SignedFwht map_;
};

}  // namespace kvasir
