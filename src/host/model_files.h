// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace kvasir {

// KVASIR_CACHE_DIR, or ~/.cache/kvasir: models and what was worked out about them. Throws Error not_found if neither
// that nor HOME is set.
std::filesystem::path cache_folder();

}  // namespace kvasir
