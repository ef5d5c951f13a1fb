// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// OSCAR (arXiv 2605.17757): R = U H P, U the eigenvectors of what errors are weighed by (queries for keys, attention
// for values), H Walsh-Hadamard, P a permutation that spreads the strongest directions over quantization groups; then
// clipping at a percentile and 2 bits a token, asymmetric.
#pragma once

#include <vector>

#include "calibrate/moments.h"
#include "calibrate/rotation_set.h"
#include "codec/fitted_map.h"

namespace kvasir {

enum class OscarRotation : uint8_t { none, h, u, uh, uhp };  // the paper's ablation
enum class OscarValues : uint8_t {
  proxy,   // sum w_t v_t v_t^T, w_t the key's energy under the queries' moment: what the authors ship
  scores,  // V^T S^T S V, what the paper states
};

struct OscarOptions {
  OscarRotation rotation = OscarRotation::uhp;
  OscarValues values = OscarValues::proxy;
  bool per_head = false;  // a rotation of its own for each KV head
  bool center = false;    // keys: without their calibrated mean, a turning one if there is one
  float clip = 0;         // share of channels that stay as they are; 0: no clipping
  int group = 0;          // channels that share a scale; 0: all
};

// c_K = .96, c_V = .92.
float oscar_clip(Side side);

FittedCodec fit_oscar(const LayerMoments& moments, Side side, const OscarOptions& options);

// The same around rotations from a file: [1 or heads] matrices [dim, dim] for row vectors, x_rot = x R.
FittedCodec oscar_with_rotations(const LayerMoments& shape, Side side, const OscarOptions& options,
                                 const std::vector<std::vector<float>>& rotations);

// R for row vectors, [dim, dim] row by row: one a layer, or one a KV head. Throws Error unsupported where H needs a
// power of two.
std::vector<std::vector<float>> oscar_rotations(const LayerMoments& moments, Side side, const OscarOptions& options);

// R = U H P of every layer, with eigenvalues, for a file: of keys by the queries, of values by the proxy. Throws as
// oscar_rotations does.
RotationSet oscar_rotation_set(const std::vector<LayerMoments>& layers, Side side, bool per_head);

}  // namespace kvasir
