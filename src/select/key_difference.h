// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace kvasir {

// KeyDiff (arXiv 2504.15364): a key is worth keeping as far as it differs from the others of its head,
//   score[i] = 1 - cos(k[i], a),  a = mean over j of k[j] / |k[j]|,
// in [0, 2]. `keys` [tokens, dim]; a zero key, or a zero mean, counts as orthogonal.
std::vector<float> key_difference_scores(std::span<const float> keys, int dim);

}  // namespace kvasir
