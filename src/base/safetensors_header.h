// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands in front of the tensors' bytes, read and written.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/safetensors.h"

namespace kvasir {

inline constexpr size_t kSafetensorsHeaderLimit = 100'000'000;  // the reference implementation's own
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

struct SafetensorsHeader {
  std::map<std::string, std::string, std::less<>> metadata;
  std::map<std::string, TensorView, std::less<>> tensors;  // views into the file's bytes
};

std::optional<TensorType> tensor_type_named(std::string_view name);

// Bytes of a tensor of this type and shape; nothing if an extent is negative or the product wraps.
std::optional<size_t> tensor_bytes(TensorType type, const TensorShape& shape);

// `file`: all of its bytes; `path` is for messages. Throws Error corrupt, unsupported.
SafetensorsHeader read_safetensors_header(std::span<const std::byte> file, const std::string& path);

}  // namespace kvasir
