// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How a model turns its queries and keys, measured and not looked up: architectures pair channels in their own ways,
// turn some of them only, and scale angles layer by layer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "codec/turning_mean.h"
#include "kvasir/engine.h"

namespace kvasir {

// One Rotary a layer, from single tokens at a few positions. Nothing if any layer does something else with positions
// than turning pairs of channels, which is checked at a position that the angles don't come from and at the end of the
// context that the model was trained for.
std::optional<std::vector<Rotary>> measure_rotary(const std::shared_ptr<Model>& model, int threads);

}  // namespace kvasir
