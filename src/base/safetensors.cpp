// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/half.h"
#include "base/safetensors_header.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

struct TypeRow {
  TensorType type;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<TypeRow, 13> kTypes = {{{TensorType::f64, "F64", 8},
                                             {TensorType::f32, "F32", 4},
                                             {TensorType::f16, "F16", 2},
                                             {TensorType::bf16, "BF16", 2},
                                             {TensorType::i64, "I64", 8},
                                             {TensorType::i32, "I32", 4},
                                             {TensorType::i16, "I16", 2},
                                             {TensorType::i8, "I8", 1},
                                             {TensorType::u64, "U64", 8},
                                             {TensorType::u32, "U32", 4},
                                             {TensorType::u16, "U16", 2},
                                             {TensorType::u8, "U8", 1},
                                             {TensorType::boolean, "BOOL", 1}}};

template <typename Value>
void append_floats(std::span<const std::byte> bytes, std::vector<float>& floats, float (*convert)(Value)) {
  floats.reserve(bytes.size() / sizeof(Value));
  for (size_t at = 0; at < bytes.size(); at += sizeof(Value)) {
    Value value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    floats.push_back(convert(value));
  }
}

}  // namespace

std::string_view tensor_type_name(TensorType type) {
  return kTypes[size_t(type)].name;
}

size_t tensor_type_bytes(TensorType type) {
  return kTypes[size_t(type)].bytes;
}

std::optional<TensorType> tensor_type_named(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string shape_text(const TensorShape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(path) {
  static_assert(std::endian::native == std::endian::little, "the tensors are used as they lie");
  SafetensorsHeader header = read_safetensors_header(file_.bytes(), path);
  metadata_ = std::move(header.metadata);
  tensors_ = std::move(header.tensors);
}

const std::string& SafetensorsFile::metadata(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end())
    throw Error(ErrorCode::corrupt, fmt::format("`{}` lacks the metadata entry {}", path_, key));
  return found->second;
}

const TensorView& SafetensorsFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Error(ErrorCode::corrupt, fmt::format("`{}` lacks the tensor {}", path_, name));
  return found->second;
}

void SafetensorsFile::require_shape(std::string_view name, const TensorShape& shape) const {
  const TensorShape& found = tensor(name).shape;
  if (found != shape)
    throw Error(ErrorCode::corrupt, fmt::format("the tensor {} of `{}` is {} instead of {}", name, path_,
                                                shape_text(found), shape_text(shape)));
}

const TensorView& SafetensorsFile::checked(std::string_view name, TensorType type, size_t alignment) const {
  const TensorView& view = tensor(name);
  if (view.type != type)
    throw Error(ErrorCode::corrupt, fmt::format("the tensor {} of `{}` is {} instead of {}", name, path_,
                                                tensor_type_name(view.type), tensor_type_name(type)));
  if (reinterpret_cast<uintptr_t>(view.bytes.data()) % alignment != 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("the tensor {} of `{}` isn't aligned to its numbers; write the file again with a current "
                            "safetensors",
                            name, path_));
  return view;
}

std::vector<float> SafetensorsFile::floats(std::string_view name) const {
  const TensorView& view = tensor(name);
  std::vector<float> floats;
  switch (view.type) {
    case TensorType::f64: append_floats<double>(view.bytes, floats, [](double value) { return float(value); }); break;
    case TensorType::f32: append_floats<float>(view.bytes, floats, [](float value) { return value; }); break;
    case TensorType::f16: append_floats<uint16_t>(view.bytes, floats, f16_to_float); break;
    case TensorType::bf16: append_floats<uint16_t>(view.bytes, floats, bf16_to_float); break;
    default:
      throw Error(ErrorCode::corrupt, fmt::format("the tensor {} of `{}` is {} instead of F64, F32, F16 or BF16", name,
                                                  path_, tensor_type_name(view.type)));
  }
  return floats;
}

}  // namespace kvasir
