// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/codec_list.h"

#include <algorithm>
#include <sstream>

#include "cli/cache_flags.h"
#include "kvasir/error.h"

namespace kvasir::cli {

std::vector<NamedOptions> parse_codec_list(const std::string& text, const CacheOptions& base) {
  std::vector<NamedOptions> list;
  std::istringstream names(text + ",");
  for (std::string name; std::getline(names, name, ',');) {
    if (std::ranges::any_of(list, [&](const NamedOptions& other) { return other.name == name; }))
      throw Error(ErrorCode::invalid_argument, "--kv names '" + name + "' twice");
    if (name.starts_with('@'))
      throw Error(ErrorCode::invalid_argument,
                  "a list of codecs takes names, no @FILE: kvasir eval kld and kvasir run take one");
    NamedOptions entry{name, base};
    std::string pair = name;
    std::ranges::replace(pair, '/', ',');
    as_argument([&] { parse_kv(pair, entry.options); });
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<std::string> native_list(const std::vector<std::string>& names) {
  if (names == std::vector<std::string>{"none"}) return {};
  for (const std::string& name : names) {
    if (name == "none") throw Error(ErrorCode::invalid_argument, "--native takes none alone, or types");
    if (std::ranges::count(names, name) > 1)
      throw Error(ErrorCode::invalid_argument, "--native names '" + name + "' twice");
  }
  return names;
}

}  // namespace kvasir::cli
