// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <fstream>

#include "kvasir/error.h"

namespace kvasir {
namespace fs = std::filesystem;
namespace {

SuiteStore::Json read_json(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return nullptr;
  SuiteStore::Json value = SuiteStore::Json::parse(file, nullptr, false);
  return value.is_discarded() ? SuiteStore::Json() : value;
}

std::optional<SuiteStore::Json> matching(const fs::path& path, const SuiteStore::Json& parameters) {
  SuiteStore::Json value = read_json(path);
  if (!value.is_object() || value.value("parameters", SuiteStore::Json()) != parameters) return std::nullopt;
  return value;
}

fs::path window_path(const fs::path& folder, const std::string& id, int index) {
  return folder / "windows" / fmt::format("{}.{}.json", id, index);
}

std::string printed(const SuiteStore::Json& value, int indent) {
  return value.dump(indent, ' ', false, SuiteStore::Json::error_handler_t::replace) + "\n";
}

}  // namespace

SuiteStore::SuiteStore(const std::string& folder) : folder_(folder) {
  std::error_code error;
  for (const char* part : {"cells", "windows"}) {
    fs::create_directories(folder_ / part, error);
    if (error) throw Error(ErrorCode::io, fmt::format("can't make the folder `{}`: {}", folder, error.message()));
  }
}

std::optional<SuiteStore::Json> SuiteStore::cell(const std::string& id, const Json& parameters) const {
  return matching(folder_ / "cells" / (id + ".json"), parameters);
}

SuiteStore::Json SuiteStore::cell_file(const std::string& id) const {
  return read_json(folder_ / "cells" / (id + ".json"));
}

std::optional<SuiteStore::Json> SuiteStore::window(const std::string& id, int index, const Json& parameters) const {
  return matching(window_path(folder_, id, index), parameters);
}

void SuiteStore::write_cell(const std::string& id, const Json& cell) const {
  write_whole_file(folder_ / "cells" / (id + ".json"), printed(cell, 2));
}

void SuiteStore::write_window(const std::string& id, int index, const Json& window) const {
  write_whole_file(window_path(folder_, id, index), printed(window, -1));
}

SuiteStore::Json SuiteStore::index() const {
  return read_json(folder_ / "suite.json");
}

void SuiteStore::write_index(const Json& index) const {
  write_whole_file(folder_ / "suite.json", printed(index, 2));
}

std::string file_name_of(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
    name += plain ? c : c == '/' ? '+' : '-';
  }
  return name;
}

void write_whole_file(const fs::path& path, std::string_view content) {
  const fs::path temporary = path.string() + ".part";
  const auto fail = [&](const char* what) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw Error(ErrorCode::io, fmt::format("can't {} `{}`", what, path.string()));
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) fail("write");
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size() &&
                       std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  if (std::fclose(file) != 0 || !written) fail("write");
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) fail("rename the finished file to");
}

std::string content_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return fmt::format("{:016x}", hash);
}

}  // namespace kvasir
