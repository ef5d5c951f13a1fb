// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows behind eval/presets.h: settings, and the numbers that their sources print.
#pragma once

#include <span>

#include "eval/presets.h"

namespace kvasir {

std::span<const Preset> preset_table();

}  // namespace kvasir
