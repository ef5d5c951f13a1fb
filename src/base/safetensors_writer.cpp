// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/replaced_file.h"
#include "base/safetensors.h"
#include "base/safetensors_header.h"
#include "kvasir/error.h"

namespace kvasir {

void SafetensorsWriter::set_metadata(const std::string& key, const std::string& value) {
  if (!metadata_.emplace(key, value).second)
    throw Error(ErrorCode::invalid_argument, fmt::format("the metadata entry {} is set twice", key));
}

void SafetensorsWriter::add_bytes(const std::string& name, TensorType type, const TensorShape& shape,
                                  std::span<const std::byte> bytes) {
  if (tensor_bytes(type, shape) != bytes.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} bytes don't fill the tensor {} of {} {}", bytes.size(),
                                                         name, tensor_type_name(type), shape_text(shape)));
  if (name == kSafetensorsMetadata || !tensors_.emplace(name, TensorView{type, shape, bytes}).second)
    throw Error(ErrorCode::invalid_argument, fmt::format("the tensor name {} is taken", name));
}

void SafetensorsWriter::save(const std::string& path) const {
  // By falling element size: with no holes allowed, that is what aligns each tensor. Then by name.
  std::vector<const std::pair<const std::string, TensorView>*> order;
  for (const auto& entry : tensors_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return tensor_type_bytes(a->second.type) > tensor_type_bytes(b->second.type);
  });

  nlohmann::json header = nlohmann::json::object();
  if (!metadata_.empty()) header[std::string(kSafetensorsMetadata)] = metadata_;
  size_t end = 0;
  for (const auto* entry : order) {
    const TensorView& view = entry->second;
    header[entry->first] = {{"dtype", tensor_type_name(view.type)},
                            {"shape", view.shape},
                            {"data_offsets", {end, end + view.bytes.size()}}};
    end += view.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("`{}` can't be written: a tensor's name or a metadata entry isn't UTF-8", path));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kSafetensorsHeaderLimit)
    throw Error(ErrorCode::invalid_argument, fmt::format("`{}` can't be written: its header would be {} bytes, of {}",
                                                         path, text.size(), kSafetensorsHeaderLimit));

  const uint64_t length = text.size();
  ReplacedFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const auto* entry : order) file.write(entry->second.bytes);
  file.commit();
}

}  // namespace kvasir
