// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "kvasir/error.h"

namespace kvasir {
namespace {

// Presets bring their own windows and may equal nothing else.
bool same_cache(const SuiteMethod& a, const SuiteMethod& b) {
  if (a.preset != nullptr || b.preset != nullptr || a.spec.native || b.spec.native) return false;
  return a.spec.cache.key == b.spec.cache.key && a.spec.cache.value == b.spec.cache.value &&
         a.spec.cache.overrides == b.spec.cache.overrides;
}

}  // namespace

std::vector<SuiteMethod> suite_methods(const std::string& list, const CacheOptions& windows) {
  std::vector<std::string> names;
  std::istringstream stream(list + ",");
  for (std::string name; std::getline(stream, name, ',');) {
    if (name.empty()) throw Error(ErrorCode::invalid_argument, "--kv takes methods as in turbo4,kivi2; one is empty");
    if (name.starts_with('@'))
      throw Error(ErrorCode::invalid_argument, "a suite's --kv takes names, no @FILE: kvasir eval kld takes one");
    if (std::ranges::find(names, name) != names.end())
      throw Error(ErrorCode::invalid_argument, "--kv names '" + name + "' twice");
    names.push_back(name);
  }
  if (std::ranges::find(names, "f16") == names.end()) names.insert(names.begin(), "f16");
  std::vector<SuiteMethod> methods;
  for (const std::string& name : names) {
    SuiteMethod method;
    method.name = name;
    method.preset = find_preset(name);
    if (method.preset != nullptr) method.unavailable = why_unavailable(*method.preset);
    try {
      if (method.unavailable.empty()) method.spec = method_spec(name, windows);
      method.spec.cache.automatic = false;  // a table's `auto` must not hang on what this machine has kept
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(ErrorCode::not_found, fmt::format("{}, K/V pairs of them, native:TYPE, and published settings: {}",
                                                    error.what(), preset_names()));
    }
    for (const SuiteMethod& other : methods)
      if (same_cache(method, other))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("--kv names one cache twice, as '{}' and '{}'", other.name, method.name));
    methods.push_back(std::move(method));
  }
  return methods;
}

}  // namespace kvasir
