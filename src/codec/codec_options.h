// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvasir/codec.h"

namespace kvasir {

// Applies `option=value:option=value` as documented at make_codec to a codec fresh from the table, and adds what
// changed to its name. Throws Error invalid_argument.
void apply_codec_options(std::string_view text, Codec& codec);

}  // namespace kvasir
