// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvasir/codec.h"

namespace kvasir {

// Turns a codec of one rotated segment into one of two: the quarter of the channels that has most energy, with
// `more_bits` bits more, and the rest. Each has its own rotation and scale (TurboQuant, arXiv 2504.19874, section 4.3).
// Throws Error unsupported where a head can't be split so.
void split_loud_channels(Codec& codec, int more_bits);

}  // namespace kvasir
