// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// .safetensors files: named tensors and named strings. Eight bytes of header length, a header in JSON, the tensors'
// bytes without holes. Little-endian, as the machines that Kvasir runs on are.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"

namespace kvasir {

enum class TensorType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

std::string_view tensor_type_name(TensorType type);  // as in the file: "F32"
size_t tensor_type_bytes(TensorType type);

// The type of a tensor of these C++ values. F16 and BF16 have none here: add_bytes() writes them and floats() reads
// them.
template <typename Value>
constexpr TensorType tensor_type_of() {
  if constexpr (std::same_as<Value, double>) return TensorType::f64;
  if constexpr (std::same_as<Value, float>) return TensorType::f32;
  if constexpr (std::same_as<Value, int64_t>) return TensorType::i64;
  if constexpr (std::same_as<Value, int32_t>) return TensorType::i32;
  if constexpr (std::same_as<Value, int16_t>) return TensorType::i16;
  if constexpr (std::same_as<Value, int8_t>) return TensorType::i8;
  if constexpr (std::same_as<Value, uint64_t>) return TensorType::u64;
  if constexpr (std::same_as<Value, uint32_t>) return TensorType::u32;
  if constexpr (std::same_as<Value, uint16_t>) return TensorType::u16;
  if constexpr (std::same_as<Value, uint8_t>) return TensorType::u8;
}

using TensorShape = std::vector<int64_t>;

std::string shape_text(const TensorShape& shape);  // "[2, 64, 64]"

struct TensorView {
  TensorType type = TensorType::f32;
  TensorShape shape;  // row-major, the last index fastest; empty: one number
  std::span<const std::byte> bytes;
};

// A file in memory. Whatever its bytes are, after the constructor every tensor lies inside the file, has as many bytes
// as its type and shape say, and shares none with another. What the numbers are (NaN, infinity) isn't looked at.
class SafetensorsFile {
 public:
  // Throws Error not_found, io, corrupt (not such a file), unsupported (a type that isn't in TensorType).
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  // Throws Error corrupt if there is no such entry; the message names it.
  const std::string& metadata(std::string_view key) const;

  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  // Throws Error corrupt if there is no such tensor; the message names it.
  const TensorView& tensor(std::string_view name) const;

  // The numbers where they lie, as long as this object lives. Throws Error corrupt if the tensor isn't there, is of
  // another type or, where one is given, of another shape; unsupported if a writer other than ours put it where the
  // processor can't read it in place.
  template <typename Value>
  std::span<const Value> values(std::string_view name) const {
    const std::span<const std::byte> bytes = checked(name, tensor_type_of<Value>(), alignof(Value)).bytes;
    return {reinterpret_cast<const Value*>(bytes.data()), bytes.size() / sizeof(Value)};
  }
  template <typename Value>
  std::span<const Value> values(std::string_view name, const TensorShape& shape) const {
    require_shape(name, shape);
    return values<Value>(name);
  }

  // A copy of an F64, F32, F16 or BF16 tensor. Throws Error corrupt for another one or none.
  std::vector<float> floats(std::string_view name) const;

  // Throws Error corrupt with both shapes in the message.
  void require_shape(std::string_view name, const TensorShape& shape) const;

 private:
  const TensorView& checked(std::string_view name, TensorType type, size_t alignment) const;

  std::string path_;
  MappedFile file_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

// Collects tensors and writes them with save(). The same content gives the same bytes in whatever order it was added.
// Every tensor lies at a multiple of its element size, the first at one of 8.
class SafetensorsWriter {
 public:
  // Throws Error invalid_argument if the key is there already.
  void set_metadata(const std::string& key, const std::string& value);

  // Keeps a pointer to the values, which have to live until save() (a temporary vector doesn't compile). Throws Error
  // invalid_argument if the name is taken or the values don't fill the shape.
  template <std::ranges::contiguous_range Values>
  requires std::ranges::borrowed_range<Values>
  void add(const std::string& name, const TensorShape& shape, Values&& values) {
    add_bytes(name, tensor_type_of<std::ranges::range_value_t<Values>>(), shape, std::as_bytes(std::span(values)));
  }
  void add_bytes(const std::string& name, TensorType type, const TensorShape& shape, std::span<const std::byte> bytes);

  // Replaces the file in one step. Throws Error io, invalid_argument (a name or metadata that isn't UTF-8).
  void save(const std::string& path) const;

 private:
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace kvasir
