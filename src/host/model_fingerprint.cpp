// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/model_fingerprint.h"

#include <fmt/format.h>
#include <ggml.h>
#include <gguf.h>

#include <cstring>
#include <map>
#include <memory>
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

}  // namespace

std::string model_fingerprint(const std::string& path) {
  ggml_context* tensors = nullptr;
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> file(gguf_init_from_file(path.c_str(), {true, &tensors}),
                                                                 gguf_free);
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> owner(tensors, ggml_free);
  if (!file) throw Error(ErrorCode::corrupt, fmt::format("`{}` can't be read as a GGUF", path));
  const MappedFile mapped(path);
  // By name: quantizers write tensors in an order of their own.
  std::map<std::string, ggml_tensor*> vectors;
  for (ggml_tensor* t = ggml_get_first_tensor(tensors); t != nullptr; t = ggml_get_next_tensor(tensors, t))
    if (t->type == GGML_TYPE_F32 && ggml_n_dims(t) == 1) vectors.emplace(t->name, t);
  std::vector<std::byte> bytes;
  append_text(file.get(), "general.architecture", bytes);
  append_text(file.get(), "general.name", bytes);
  for (const auto& [name, t] : vectors) {
    const size_t offset = gguf_get_data_offset(file.get()) +
                          gguf_get_tensor_offset(file.get(), gguf_find_tensor(file.get(), name.c_str()));
    if (offset + ggml_nbytes(t) > mapped.bytes().size())
      throw Error(ErrorCode::corrupt, fmt::format("`{}` is truncated: tensor {} lies beyond its end", path, name));
    append(bytes, name.c_str(), name.size() + 1);
    append(bytes, t->ne, sizeof(t->ne[0]));
    append(bytes, mapped.bytes().data() + offset, ggml_nbytes(t));
  }
  return fmt::format("{:016x}", checksum(bytes));
}

}  // namespace kvasir
