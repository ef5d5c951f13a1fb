// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kvasir {

// Model::fingerprint, from the file alone: XXH3 over architecture, name, and name, shape and bytes of every F32 tensor
// with one dimension. Norms and biases keep F32 in every weight quantization, so all of them share calibrations.
// Throws Error corrupt if the file isn't a GGUF that can be read.
std::string model_fingerprint(const std::string& path);

// Tells weight quantizations of one model apart as well: XXH3 over everything before the tensors' data (metadata,
// names, types) and the first 4 KiB of each tensor. What a cache holds belongs to the very weights that made it. Throws
// Error corrupt.
std::string weights_fingerprint(const std::string& path);

}  // namespace kvasir
