// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Calibrated rotations of one side of a model's KV cache, whatever file they came in.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvasir/codec.h"

namespace kvasir {

inline constexpr int kMaxRotationDim = 1024;
inline constexpr int kMaxRotationHeads = 1024;
inline constexpr int kMaxRotationLayers = 1024;
inline constexpr size_t kMaxRotationNumbers = size_t(1) << 28;  // of a whole set: 1 GiB

// Float rotations multiplied from eigenvectors are off by 1e-6 or less (OSCAR's own by 1e-8); beyond this a matrix is
// no rotation, and attention over rotated keys isn't attention over the keys.
inline constexpr double kMaxRotationError = 1e-3;

struct RotationLayer {
  int layer = 0;                   // of the model; those of a hybrid model that keep no cache have none
  int heads = 1;                   // 1 where the layer's KV heads share it
  int dim = 0;                     // d
  std::vector<float> rotation;     // [heads, d, d]: x_rot = x @ R, x a row
  std::vector<float> eigenvalues;  // [heads, d], of what the rotation was fitted to; may be empty

  bool operator==(const RotationLayer&) const = default;
};

struct RotationSet {
  Side side = Side::key;
  std::string objective;  // what it was fitted to, as its file says: "qqt_r_h_pbr"
  bool per_head = false;
  std::vector<RotationLayer> layers;  // by rising layer

  bool operator==(const RotationSet&) const = default;
};

std::string_view side_name(Side side);          // "key"
std::string_view grouping_name(bool per_head);  // "per_kv_head" or "layer", as OSCAR's files have it

// `source` is what the messages call the set, for example "`k.pt`". Throws Error corrupt: no layers, layers twice or
// out of order, shapes that contradict each other, NaN or infinity, a matrix that is not orthogonal (with max |R^T R -
// I|).
void validate(const RotationSet& set, const std::string& source);

struct KvShape {
  int kv_heads = 0;  // 0: this layer keeps no cache
  int dim = 0;
};

// Throws Error invalid_argument if the set isn't one of a model with these layers: another number of layers, head
// dimension or (per head) number of KV heads. The message says what the set has and what the model has.
void require_matches(const RotationSet& set, std::span<const KvShape> model, const std::string& source);

// max |R^T R - I| over all entries of one [dim, dim] matrix, in double.
double orthogonality_error(std::span<const float> rotation, int dim);

}  // namespace kvasir
