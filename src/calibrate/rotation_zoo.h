// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Rotations as OSCAR publishes them (arXiv 2605.17757, "RotationZoo"): a .pt of torch.save that holds
//
//   {format_version: 1, objective: str, source_grouping: "layer",
//    layers: {id: {layer_id: id, rotation: float32 [d, d], eigenvalues: float32 [d]}}}
//
// or format_version 2, source_grouping "per_kv_head", rotation [heads, d, d] and no eigenvalues. Ids may be texts.
#pragma once

#include <string>

#include "calibrate/rotation_set.h"

namespace kvasir {

// The file doesn't say whether it is of keys or of values; `side` does, and must not contradict the objective. The
// result is valid (calibrate/rotation_set.h). Throws Error not_found, io, corrupt, unsupported, invalid_argument.
RotationSet read_rotation_zoo(const std::string& path, Side side);

}  // namespace kvasir
