// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "eval/logit_source.h"
#include "eval/presets.h"

namespace kvasir {

// One row of the table.
struct SuiteMethod {
  std::string name;  // as asked for
  SourceSpec spec;
  const Preset* preset = nullptr;
  std::string unavailable;  // why it can't run at all; empty if it can
};

// `A,B,...`: codecs, K/V pairs with a slash, either with @LAYERS:CODEC behind, native:K[/V], presets. All but presets
// get the windows and protections of `windows`, so that they stand on equal footing; f16 comes first, asked for or not,
// because every row is read against it. Presets that this version can't run stay in the list. Throws Error:
// invalid_argument for a name given twice, what method_spec throws for unknown names.
std::vector<SuiteMethod> suite_methods(const std::string& list, const CacheOptions& windows);

}  // namespace kvasir
