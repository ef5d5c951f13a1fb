// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "cli/terminal.h"

namespace kvasir::cli {

// Runs `work` in a child process and returns its result: what it allocates, and its peak memory, are its own. An Error
// in the child is thrown here. Call it before this process has started threads: only the calling one goes along.
Json in_child_process(const std::function<Json()>& work);

}  // namespace kvasir::cli
