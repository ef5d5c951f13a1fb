// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kvasir {

// Model::fingerprint, from the file alone: XXH3 over architecture, name, and name, shape and bytes of every F32 tensor
// with one dimension. Norms and biases keep F32 in every weight quantization, so all of them share calibrations.
// Throws Error corrupt if the file isn't a GGUF that can be read.
std::string model_fingerprint(const std::string& path);

}  // namespace kvasir
