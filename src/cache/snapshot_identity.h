// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What has to be the same for a cache to take a snapshot's pages: the model, the layers' shapes, the codecs with their
// maps, the windows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cache/cache_impl.h"

namespace kvasir {

nlohmann::json snapshot_identity(const CacheImpl& cache, const std::string& model, const std::string& model_name);

// Compares what a file says with the cache and the model it is to be restored for. Throws Error invalid_argument: one
// sentence with both, and nlohmann's exceptions for an entry that isn't an identity.
void require_identity(const std::string& path, const nlohmann::json& file, const CacheImpl& cache,
                      const std::string& model);

}  // namespace kvasir
