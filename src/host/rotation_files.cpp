// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/rotation_files.h"

#include <algorithm>
#include <vector>

#include "base/mapped_file.h"
#include "calibrate/rotation_safetensors.h"
#include "calibrate/rotation_zoo.h"
#include "host/rotation_gguf.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

std::string first_bytes(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes().first(std::min<size_t>(file.bytes().size(), 9));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RotationSet read_matching(const std::string& path, Side side, const Geometry& model) {
  RotationSet set = read_rotations(path, side);
  std::vector<KvShape> shapes;
  for (const LayerGeometry& layer : model.layers)
    shapes.push_back({layer.kv_heads, side == Side::key ? layer.key_dim : layer.value_dim});
  require_matches(set, shapes, "`" + path + "`");
  return set;
}

}  // namespace

RotationSet read_rotations(const std::string& path, Side side) {
  const std::string first = first_bytes(path);
  if (first.starts_with("PK")) return read_rotation_zoo(path, side);
  if (first.starts_with("GGUF")) return read_rotation_gguf(path, side);
  if (first.size() == 9 && first[8] == '{') return read_rotation_safetensors(path, side);
  // torch.save's format before 1.6: pickles without an archive around them.
  const bool old = first.starts_with("\x80\x02");
  throw Error(ErrorCode::unsupported, "`" + path + "` is no rotation file that Kvasir reads: " +
                                          (old ? "it is in torch's old format, load it and save it again"
                                               : "a .pt of OSCAR, .gguf or .safetensors"));
}

GivenRotations read_given_rotations(const std::string& files, const Geometry& model, bool keys, bool values) {
  const size_t comma = files.find(',');
  const std::string of_keys = files.substr(0, comma);
  const std::string of_values = comma == std::string::npos ? of_keys : files.substr(comma + 1);
  if (of_keys.empty() || of_values.empty())
    throw Error(ErrorCode::invalid_argument, "--rotations takes K_FILE or K_FILE,V_FILE, got '" + files + "'");
  if (comma == std::string::npos && keys && values && first_bytes(files).starts_with("PK"))
    throw Error(
        ErrorCode::invalid_argument,
        "`" + files + "` is a .pt, which holds one side: name the values' file too, --rotations " + files + ",V_FILE");
  GivenRotations given;
  if (keys) {
    given.key = read_matching(of_keys, Side::key, model);
    given.source = "`" + of_keys + "`";
  }
  if (values) {
    given.value = read_matching(of_values, Side::value, model);
    if (given.source.empty() || of_values != of_keys)
      given.source += (given.source.empty() ? "`" : ", `") + of_values + "`";
  }
  return given;
}

RotationFormat rotation_format(const std::string& path) {
  if (path.ends_with(".safetensors")) return RotationFormat::safetensors;
  if (path.ends_with(".gguf")) return RotationFormat::gguf;
  throw Error(ErrorCode::invalid_argument,
              "rotations are written as .safetensors or .gguf; the name '" + path + "' ends in neither");
}

void write_rotations(std::span<const RotationSet> sets, const std::string& path) {
  if (rotation_format(path) == RotationFormat::gguf) return write_rotation_gguf(sets, path);
  write_rotation_safetensors(sets, path);
}

}  // namespace kvasir
