// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/tuned_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kvasir/error.h"

namespace kvasir {
namespace {

std::string read_whole(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw Error(ErrorCode::not_found, "no file `" + path + "`; kvasir tune -o FILE writes one for --kv @FILE");
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error))
    throw Error(ErrorCode::io, "`" + path + "` can't be opened for reading");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

void read_tuned_file(const std::string& path, CacheOptions& options) {
  const auto text_of = [](const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const nlohmann::json object = nlohmann::json::parse(read_whole(path), nullptr, false);
  const std::string model = text_of(object, "model"), kv = text_of(object, "kv"), layers = text_of(object, "kv_layers");
  if (!object.is_object() || text_of(object, "format") != kTunedFormat || model.empty() || layers.empty() ||
      kv.empty() || kv.starts_with('@'))
    throw Error(ErrorCode::corrupt, "`" + path + "` isn't what kvasir tune writes; --kv @FILE takes nothing else");
  parse_kv(kv, options);
  parse_kv_layers(layers, options);
  if (const auto protect = object.find("protect"); protect != object.end() && protect->is_boolean())
    options.protect = protect->get<bool>();
  options.tuned = path;
  options.tuned_fits = text_of(object, "fitted_by");
  options.tuned_for = model;
}

}  // namespace kvasir
