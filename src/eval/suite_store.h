// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The folder of a suite: small JSON files, each written whole or not at all.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

class SuiteStore {
 public:
  using Json = nlohmann::ordered_json;

  // Makes the folders. Throws Error io.
  explicit SuiteStore(const std::string& folder);

  // A file's content if it is there, can be read and was measured under these parameters. `measured` may have parts
  // that say nothing about the result's value, such as seconds; only member "parameters" is compared.
  std::optional<Json> cell(const std::string& id, const Json& parameters) const;
  std::optional<Json> window(const std::string& id, int index, const Json& parameters) const;
  Json cell_file(const std::string& id) const;  // whatever it was measured under; null if there is none
  void write_cell(const std::string& id, const Json& cell) const;
  void write_window(const std::string& id, int index, const Json& window) const;

  Json index() const;  // null if there is none yet
  void write_index(const Json& index) const;

 private:
  std::filesystem::path folder_;
};

// Letters, digits, '.', '-' and '_' stay; '/' becomes '+', all else '-'. For file names.
std::string file_name_of(std::string_view text);

// Writes to a temporary file beside `path`, syncs, renames. Throws Error io.
void write_whole_file(const std::filesystem::path& path, std::string_view content);

// FNV-1a, 64 bits, as hexadecimal digits.
std::string content_hash(std::string_view text);

}  // namespace kvasir
