// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/rotation_gguf.h"

#include <fmt/format.h>
#include <ggml-cpp.h>
#include <ggml.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/replaced_file.h"
#include "host/llama_log.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr std::string_view kBlock = "blk.";

std::string name_behind_layer(Side side) {
  return side == Side::key ? ".attn_k_rot.weight" : ".attn_v_rot.weight";
}

std::string metadata_key(Side side, std::string_view what) {
  return fmt::format("kvasir.rotation.{}.{}", side_name(side), what);
}

// [heads, d, d], each matrix turned over.
std::vector<float> transposed(std::span<const float> matrices, int heads, int dim) {
  std::vector<float> turned(matrices.size());
  const size_t d = size_t(dim);
  for (size_t head = 0; head < size_t(heads); ++head) {
    for (size_t i = 0; i < d; ++i) {
      for (size_t j = 0; j < d; ++j) turned[(head * d + j) * d + i] = matrices[(head * d + i) * d + j];
    }
  }
  return turned;
}

class Reader {
 public:
  Reader(const std::string& path, Side side) : source_("`" + path + "`"), side_(side), mapped_(path) {
    start_llama();
    clear_llama_error();
    const std::span<const std::byte> bytes = mapped_.bytes();
    if (!bytes.empty())
      file_.reset(gguf_init_from_buffer(bytes.data(), bytes.size(), {.no_alloc = true, .ctx = nullptr}));
    if (!file_) throw Error(ErrorCode::corrupt, fmt::format("{} isn't a whole GGUF file: {}", source_, llama_error()));
  }

  RotationSet read() {
    RotationSet set;
    set.side = side_;
    set.objective = text("objective").value_or("");
    const int64_t tensors = gguf_get_n_tensors(file_.get());
    size_t numbers = 0;
    for (int64_t i = 0; i < tensors; ++i) {
      const std::optional<int> layer = layer_of(gguf_get_tensor_name(file_.get(), i), side_);
      if (!layer) continue;
      set.layers.push_back(read_layer(i, *layer));
      numbers += set.layers.back().rotation.size();
      set.per_head |= set.layers.back().heads > 1;
      if (numbers > kMaxRotationNumbers) fail(fmt::format("more than {} numbers", kMaxRotationNumbers));
    }
    if (set.layers.empty()) refuse_without_layers();
    std::sort(set.layers.begin(), set.layers.end(), [](const auto& a, const auto& b) { return a.layer < b.layer; });
    // One KV head can be either; only our own files say which.
    if (const auto grouping = text("grouping")) {
      if (*grouping == grouping_name(true)) {
        set.per_head = true;
      } else if (*grouping != grouping_name(false)) {
        fail(fmt::format("the grouping {} isn't known", *grouping));
      }
    }
    validate(set, source_);
    return set;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::corrupt, fmt::format("{} isn't a sound file of rotations: {}", source_, what));
  }

  // "blk.12.attn_k_rot.weight" -> 12
  static std::optional<int> layer_of(std::string_view name, Side side) {
    const std::string suffix = name_behind_layer(side);
    if (!name.starts_with(kBlock) || !name.ends_with(suffix) || name.size() <= kBlock.size() + suffix.size())
      return std::nullopt;
    name.remove_prefix(kBlock.size());
    name.remove_suffix(suffix.size());
    int layer = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error != std::errc() || end != name.data() + name.size() || layer < 0) return std::nullopt;
    return layer;
  }

  [[noreturn]] void refuse_without_layers() const {
    const Side other = side_ == Side::key ? Side::value : Side::key;
    bool others = false;
    for (int64_t i = 0; i < gguf_get_n_tensors(file_.get()); ++i)
      others |= layer_of(gguf_get_tensor_name(file_.get(), i), other).has_value();
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} has no {} rotations (tensors blk.0{} and so on){}", source_, side_name(side_),
                    name_behind_layer(side_), others ? fmt::format("; it holds {} rotations", side_name(other)) : ""));
  }

  std::optional<std::string> text(std::string_view what) const {
    const int64_t key = gguf_find_key(file_.get(), metadata_key(side_, what).c_str());
    if (key < 0) return std::nullopt;
    if (gguf_get_kv_type(file_.get(), key) != GGUF_TYPE_STRING) fail(fmt::format("its {} is no text", what));
    return gguf_get_val_str(file_.get(), key);
  }

  RotationLayer read_layer(int64_t tensor, int id) const {
    const std::string name = gguf_get_tensor_name(file_.get(), tensor);
    if (gguf_get_tensor_type(file_.get(), tensor) != GGML_TYPE_F32)
      throw Error(ErrorCode::unsupported, fmt::format("{} has {} as {}; rotations are read as f32", source_, name,
                                                      ggml_type_name(gguf_get_tensor_type(file_.get(), tensor))));
    const int64_t* shape = gguf_get_tensor_ne(file_.get(), tensor);
    if (shape[0] < 1 || shape[0] > kMaxRotationDim || shape[1] != shape[0] || shape[2] < 1 ||
        shape[2] > kMaxRotationHeads || shape[3] != 1)
      fail(fmt::format("{} is [{}, {}, {}, {}] and not [d, d] or [d, d, heads] of at most {} channels", name, shape[0],
                       shape[1], shape[2], shape[3], kMaxRotationDim));
    RotationLayer layer;
    layer.layer = id;
    layer.dim = int(shape[0]);
    layer.heads = int(shape[2]);

    const std::span<const std::byte> bytes = mapped_.bytes();
    const size_t data = gguf_get_data_offset(file_.get()), offset = gguf_get_tensor_offset(file_.get(), tensor);
    const size_t size = size_t(layer.heads) * size_t(layer.dim) * size_t(layer.dim) * sizeof(float);
    if (data > bytes.size() || offset > bytes.size() - data || size > bytes.size() - data - offset)
      fail(fmt::format("the file is cut off inside {}", name));
    std::vector<float> stored(size / sizeof(float));
    std::memcpy(stored.data(), bytes.data() + data + offset, size);
    layer.rotation = transposed(stored, layer.heads, layer.dim);
    return layer;
  }

  std::string source_;
  Side side_;
  MappedFile mapped_;
  gguf_context_ptr file_;
};

void write_padding(size_t bytes, ReplacedFile& file) {
  const std::vector<std::byte> zeros(GGML_PAD(bytes, GGUF_DEFAULT_ALIGNMENT) - bytes);
  file.write(zeros);
}

}  // namespace

void write_rotation_gguf(std::span<const RotationSet> sets, const std::string& path) {
  if (sets.empty() || sets.size() > 2 || (sets.size() == 2 && sets[0].side == sets[1].side))
    throw Error(ErrorCode::invalid_argument, "a file of rotations takes one set, or one of keys and one of values");
  start_llama();
  const gguf_context_ptr header(gguf_init_empty());
  gguf_set_val_str(header.get(), "general.type", "rotations");
  size_t layers = 0;
  for (const RotationSet& set : sets) layers += set.layers.size();
  const ggml_context_ptr tensors(
      ggml_init({.mem_size = (layers + 1) * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  for (const RotationSet& set : sets) {
    validate(set, fmt::format("the {} rotations for `{}`", side_name(set.side), path));
    gguf_set_val_str(header.get(), metadata_key(set.side, "objective").c_str(), set.objective.c_str());
    gguf_set_val_str(header.get(), metadata_key(set.side, "grouping").c_str(),
                     std::string(grouping_name(set.per_head)).c_str());
    for (const RotationLayer& layer : set.layers) {
      ggml_tensor* tensor = ggml_new_tensor_3d(tensors.get(), GGML_TYPE_F32, layer.dim, layer.dim, layer.heads);
      ggml_set_name(tensor, fmt::format("{}{}{}", kBlock, layer.layer, name_behind_layer(set.side)).c_str());
      gguf_add_tensor(header.get(), tensor);
    }
  }

  std::vector<std::byte> bytes(gguf_get_meta_size(header.get()));
  gguf_get_meta_data(header.get(), bytes.data());
  ReplacedFile file(path);
  file.write(bytes);
  for (const RotationSet& set : sets) {
    for (const RotationLayer& layer : set.layers) {
      const std::vector<float> turned = transposed(layer.rotation, layer.heads, layer.dim);
      file.write(std::as_bytes(std::span(turned)));
      write_padding(turned.size() * sizeof(float), file);
    }
  }
  file.commit();
}

RotationSet read_rotation_gguf(const std::string& path, Side side) {
  return Reader(path, side).read();
}

}  // namespace kvasir
