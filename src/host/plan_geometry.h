// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a GGUF file without its weights, for `kvasir plan`.
#pragma once

#include <string>

#include "kvasir/cache.h"

namespace kvasir {

// Reads metadata and vocabulary only and lets llama.cpp build (not run) the graph of a short batch; sink logits stay
// empty. A layer is windowed if llama.cpp gives it a smaller cache than the context asks for, so this too needs no
// table of models. Throws what Model::load throws.
Geometry geometry_from_gguf(const std::string& path);

}  // namespace kvasir
