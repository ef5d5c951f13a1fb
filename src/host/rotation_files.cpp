// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/rotation_files.h"

#include <algorithm>

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

}  // namespace kvasir
