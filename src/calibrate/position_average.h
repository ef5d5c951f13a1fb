// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Moments over all places where a text could begin. Rotary embeddings (RoPE, arXiv 2104.09864) turn pairs of channels
// of queries and keys by an angle that grows with the position, so a text that begins at another place pays and gets
// the same attention, with all its queries and keys turned alike: R x for x. Sums of x x^T over texts that began at 0
// become sums over all beginnings by one formula for each pair of pairs; nothing has to be read twice.
#pragma once

#include <cstdint>

#include "calibrate/moments.h"

namespace kvasir {

// Replaces the sums of queries and keys, of texts that began at position 0, by their mean over beginnings below
// `positions`. Values, outputs and counts don't turn. `moments.rotary` says how the rest does.
void average_over_positions(LayerMoments& moments, int64_t positions);

}  // namespace kvasir
