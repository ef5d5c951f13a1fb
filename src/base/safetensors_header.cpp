// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kDepth = 3;           // header, tensor, shape
constexpr size_t kDimensions = 16;  // more than any tensor of ours or a model's

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  SafetensorsHeader read() {
    const std::string_view text = header_text();
    const nlohmann::json header = parse(text);
    if (!header.is_object()) fail("has a header that is no JSON object");
    data_ = file_.subspan(sizeof(uint64_t) + text.size());
    for (const auto& [name, entry] : header.items()) {
      if (name == kSafetensorsMetadata) {
        read_metadata(entry);
      } else {
        read_tensor(name, entry);
      }
    }
    require_whole();
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorCode::corrupt, "`" + path_ + "` " + what); }

  std::string_view header_text() const {
    uint64_t length = 0;
    if (file_.size() < sizeof length) fail("is too short for a safetensors file");
    std::memcpy(&length, file_.data(), sizeof length);
    if (length > kSafetensorsHeaderLimit)
      fail(fmt::format("claims a header of {} bytes; at most {} are allowed", length, kSafetensorsHeaderLimit));
    if (length > file_.size() - sizeof length) fail("is cut off inside its header");
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + sizeof length, size_t(length));
    if (!text.starts_with('{')) fail("isn't a safetensors file");
    return text;
  }

  // nlohmann's own object keeps the last of two entries with one name; a file that says two things says none.
  nlohmann::json parse(std::string_view text) const {
    std::vector<std::set<std::string>> names;
    const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
      using Event = nlohmann::json::parse_event_t;
      if (event == Event::object_start || event == Event::array_start) {
        if (depth >= kDepth) fail("has a header with more levels than a safetensors file has");
        if (event == Event::object_start) names.emplace_back();
      } else if (event == Event::object_end) {
        names.pop_back();
      } else if (event == Event::key) {
        if (!names.back().insert(parsed.get<std::string>()).second)
          fail(fmt::format("names {} twice in its header", parsed.dump()));
      }
      return true;
    };
    try {
      return nlohmann::json::parse(text, watch);
    } catch (const nlohmann::json::exception&) {
      fail("has a header that isn't valid JSON");
    }
  }

  void read_metadata(const nlohmann::json& entries) {
    if (!entries.is_object()) fail("has metadata that is no JSON object");
    for (const auto& [key, value] : entries.items()) {
      if (!value.is_string()) fail(fmt::format("has the metadata entry {} that is no text", key));
      header_.metadata.emplace(key, value.get<std::string>());
    }
  }

  void read_tensor(const std::string& name, const nlohmann::json& entry) {
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
        !entry.contains("data_offsets"))
      fail(fmt::format("describes the tensor {} by something else than dtype, shape and data_offsets", name));
    const nlohmann::json& type = entry["dtype"];
    if (!type.is_string()) fail(fmt::format("has the tensor {} of a type that is no text", name));
    const std::optional<TensorType> found = tensor_type_named(type.get<std::string>());
    if (!found)
      throw Error(ErrorCode::unsupported, fmt::format("`{}` has the tensor {} of the type {}, which can't be read",
                                                      path_, name, type.get<std::string>()));
    TensorView view{*found, numbers(name, entry["shape"], kDimensions), {}};
    const TensorShape offsets = numbers(name, entry["data_offsets"], 2);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || size_t(offsets[1]) > data_.size())
      fail(fmt::format("has the tensor {} outside its bytes; the file is cut off or its header is wrong", name));
    view.bytes = data_.subspan(size_t(offsets[0]), size_t(offsets[1] - offsets[0]));
    if (tensor_bytes(view.type, view.shape) != view.bytes.size())
      fail(fmt::format("has {} bytes for the tensor {} of {} {}", view.bytes.size(), name, tensor_type_name(view.type),
                       shape_text(view.shape)));
    header_.tensors.emplace(name, std::move(view));
  }

  TensorShape numbers(const std::string& name, const nlohmann::json& list, size_t most) const {
    TensorShape numbers;
    if (!list.is_array() || list.size() > most)
      fail(fmt::format("has the tensor {} whose shape or offsets are no short list", name));
    for (const nlohmann::json& number : list) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t(INT64_MAX))
        fail(fmt::format("has the tensor {} whose shape or offsets are no whole numbers", name));
      numbers.push_back(number.get<int64_t>());
    }
    return numbers;
  }

  // The tensors one after the other are the data: no byte twice, none unused.
  void require_whole() const {
    std::vector<std::pair<size_t, size_t>> ranges;  // first byte, end
    for (const auto& [name, view] : header_.tensors) {
      const size_t first = size_t(view.bytes.data() - data_.data());
      ranges.emplace_back(first, first + view.bytes.size());
    }
    std::sort(ranges.begin(), ranges.end());
    size_t end = 0;
    for (const auto& [first, last] : ranges) {
      if (first < end) fail("has tensors that overlap");
      if (first > end) fail("has bytes between its tensors that belong to none");
      end = last;
    }
    if (end != data_.size()) fail("has bytes behind its tensors that belong to none");
  }

  std::span<const std::byte> file_, data_;
  const std::string& path_;
  SafetensorsHeader header_;
};

}  // namespace

std::optional<size_t> tensor_bytes(TensorType type, const TensorShape& shape) {
  size_t bytes = tensor_type_bytes(type);
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, size_t(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

SafetensorsHeader read_safetensors_header(std::span<const std::byte> file, const std::string& path) {
  return HeaderReader(file, path).read();
}

}  // namespace kvasir
