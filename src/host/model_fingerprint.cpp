// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/model_fingerprint.h"

#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/mapped_file.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

void append(std::vector<std::byte>& bytes, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
}

void append_text(const gguf_context* file, const char* key, std::vector<std::byte>& bytes) {
  const int64_t id = gguf_find_key(file, key);
  if (id < 0 || gguf_get_kv_type(file, id) != GGUF_TYPE_STRING) return;
  const char* text = gguf_get_val_str(file, id);
  append(bytes, text, std::strlen(text) + 1);
}

struct OpenGguf {
  std::unique_ptr<gguf_context, decltype(&gguf_free)> file{nullptr, gguf_free};
  std::unique_ptr<ggml_context, decltype(&ggml_free)> tensors{nullptr, ggml_free};
};

OpenGguf open_gguf(const std::string& path) {
  ggml_context* tensors = nullptr;
  OpenGguf gguf;
  gguf.file.reset(gguf_init_from_file(path.c_str(), {true, &tensors}));
  gguf.tensors.reset(tensors);
  if (!gguf.file) throw Error(ErrorCode::corrupt, fmt::format("`{}` can't be read as a GGUF", path));
  return gguf;
}

// Where the tensor's data lies in the file.
std::span<const std::byte> data_of(const gguf_context* file, const ggml_tensor* t, const MappedFile& mapped,
                                   const std::string& path) {
  const size_t offset = gguf_get_data_offset(file) + gguf_get_tensor_offset(file, gguf_find_tensor(file, t->name));
  if (offset > mapped.bytes().size() || ggml_nbytes(t) > mapped.bytes().size() - offset)
    throw Error(ErrorCode::corrupt, fmt::format("`{}` is truncated: tensor {} lies beyond its end", path, t->name));
  return mapped.bytes().subspan(offset, ggml_nbytes(t));
}

constexpr size_t kSampled = 4096;  // bytes of each tensor that weights_fingerprint reads

}  // namespace

std::string model_fingerprint(const std::string& path) {
  const OpenGguf gguf = open_gguf(path);
  const MappedFile mapped(path);
  // By name: quantizers write tensors in an order of their own.
  std::map<std::string, ggml_tensor*> vectors;
  for (ggml_tensor* t = ggml_get_first_tensor(gguf.tensors.get()); t != nullptr;
       t = ggml_get_next_tensor(gguf.tensors.get(), t))
    if (t->type == GGML_TYPE_F32 && ggml_n_dims(t) == 1) vectors.emplace(t->name, t);
  std::vector<std::byte> bytes;
  append_text(gguf.file.get(), "general.architecture", bytes);
  append_text(gguf.file.get(), "general.name", bytes);
  for (const auto& [name, t] : vectors) {
    const std::span<const std::byte> data = data_of(gguf.file.get(), t, mapped, path);
    append(bytes, name.c_str(), name.size() + 1);
    append(bytes, t->ne, sizeof(t->ne[0]));
    append(bytes, data.data(), data.size());
  }
  return fmt::format("{:016x}", checksum(bytes));
}

std::string weights_fingerprint(const std::string& path) {
  const OpenGguf gguf = open_gguf(path);
  const MappedFile mapped(path);
  PiecewiseChecksum sum;
  sum.add(mapped.bytes().first(std::min(gguf_get_data_offset(gguf.file.get()), mapped.bytes().size())));
  for (ggml_tensor* t = ggml_get_first_tensor(gguf.tensors.get()); t != nullptr;
       t = ggml_get_next_tensor(gguf.tensors.get(), t)) {
    const std::span<const std::byte> data = data_of(gguf.file.get(), t, mapped, path);
    sum.add(data.first(std::min(kSampled, data.size())));
  }
  return fmt::format("{:016x}", sum.value());
}

}  // namespace kvasir
