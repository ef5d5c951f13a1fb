// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/calibrate/torch_file.h"

#include <zip.h>

#include <algorithm>
#include <stdexcept>

namespace kvasir::test {
namespace {

std::string little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += char(value >> (8 * i) & 0xff);
  return text;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  return strides;
}

}  // namespace

void PickleWriter::number(int64_t value) {
  if (value >= 0 && value < 256) {
    bytes_ += 'K' + little(uint64_t(value), 1);
  } else if (value >= 0 && value < 65536) {
    bytes_ += 'M' + little(uint64_t(value), 2);
  } else {
    bytes_ += 'J' + little(uint64_t(value), 4);
  }
}

void PickleWriter::remember() {
  bytes_ += next_ < 256 ? 'q' + little(uint64_t(next_), 1) : 'r' + little(uint64_t(next_), 4);
  ++next_;
}

bool PickleWriter::recall(const std::string& what) {
  const auto [slot, unknown] = slots_.emplace(what, next_);
  if (!unknown)
    bytes_ += slot->second < 256 ? 'h' + little(uint64_t(slot->second), 1) : 'j' + little(uint64_t(slot->second), 4);
  return !unknown;
}

void PickleWriter::text(const std::string& value) {
  if (recall("text " + value)) return;
  bytes_ += 'X' + little(value.size(), 4) + value;
  remember();
}

void PickleWriter::global(const std::string& module, const std::string& name) {
  if (recall("global " + module + "." + name)) return;
  bytes_ += 'c' + module + '\n' + name + '\n';
  remember();
}

void PickleWriter::tuple(const std::vector<int64_t>& numbers) {
  if (numbers.size() > 3) throw std::logic_error("a tuple of more than three");
  for (const int64_t number : numbers) this->number(number);
  bytes_ += numbers.empty() ? ')' : char(0x84 + numbers.size());
  if (!numbers.empty()) remember();
}

void PickleWriter::tensor(int64_t key, int64_t storage_numbers, int64_t offset, const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& strides) {
  global("torch._utils", "_rebuild_tensor_v2");
  bytes_ += "((";
  text("storage");
  global("torch", "FloatStorage");
  text(std::to_string(key));
  text("cpu");
  number(storage_numbers);
  bytes_ += 't';
  remember();
  bytes_ += 'Q';
  number(offset);
  tuple(shape);
  tuple(strides);
  bytes_ += '\x89';
  global("collections", "OrderedDict");
  bytes_ += ")R";
  remember();
  bytes_ += 't';
  remember();
  bytes_ += 'R';
  remember();
}

std::string& TorchFile::operator[](std::string_view name) {
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.name == name; });
  if (found != members.end()) return found->bytes;
  members.push_back({std::string(name), ""});
  return members.back().bytes;
}

void TorchFile::remove(std::string_view name) {
  std::erase_if(members, [&](const ZipMember& member) { return member.name == name; });
}

void TorchFile::write(const std::string& path) const {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive == nullptr) throw std::runtime_error("can't make " + path);
  for (const ZipMember& member : members) {
    const std::string name = stem.empty() ? member.name : stem + "/" + member.name;
    zip_source_t* source = zip_source_buffer(archive, member.bytes.data(), member.bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) throw std::runtime_error("can't add " + name);
    zip_set_file_compression(archive, zip_uint64_t(index), member.compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    zip_file_set_mtime(archive, zip_uint64_t(index), 1'000'000'000, 0);
  }
  if (zip_close(archive) != 0) throw std::runtime_error("can't write " + path);
}

TorchFile zoo_file(const RotationSet& set, const ZooVariant& variant) {
  TorchFile file;
  PickleWriter pickle;
  int64_t storages = 0;
  const auto add_tensor = [&](const std::vector<float>& numbers, const std::vector<int64_t>& shape, bool rotation) {
    std::vector<int64_t> strides = row_major(shape);
    if (rotation && variant.transposed) std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
    const int64_t claimed = variant.claimed_numbers >= 0 ? variant.claimed_numbers : int64_t(numbers.size());
    pickle.tensor(storages, claimed, rotation ? variant.offset : 0, shape, strides);
    file["data/" + std::to_string(storages++)] = float_bytes(numbers);
  };

  pickle.raw("}");
  pickle.remember();
  pickle.raw("(");
  pickle.text("format_version");
  pickle.number(variant.format_version != 0 ? variant.format_version : set.per_head ? 2 : 1);
  pickle.text("objective");
  pickle.text(set.objective);
  pickle.text("source_grouping");
  pickle.text(!variant.grouping.empty() ? variant.grouping : std::string(grouping_name(set.per_head)));
  pickle.text("layers");
  pickle.raw("}");
  pickle.remember();
  // Python sets a single item without a mark.
  const bool many = set.layers.size() > 1;
  if (many) pickle.raw("(");
  for (const RotationLayer& layer : set.layers) {
    if (variant.text_keys) {
      pickle.text(std::to_string(layer.layer));
    } else {
      pickle.number(layer.layer);
    }
    pickle.raw("}");
    pickle.remember();
    pickle.raw("(");
    pickle.text("layer_id");
    pickle.number(layer.layer);
    pickle.text("rotation");
    if (set.per_head) {
      add_tensor(layer.rotation, {layer.heads, layer.dim, layer.dim}, true);
    } else {
      add_tensor(layer.rotation, {layer.dim, layer.dim}, true);
    }
    if (!layer.eigenvalues.empty()) {
      pickle.text("eigenvalues");
      add_tensor(layer.eigenvalues, {layer.dim}, false);
    }
    pickle.raw("u");
  }
  if (!set.layers.empty()) pickle.raw(many ? "u" : "s");
  if (!variant.extra_key.empty()) {
    pickle.text(variant.extra_key);
    pickle.number(1);
  }
  pickle.raw("u");
  file["data.pkl"] = pickle.finish();
  file[".format_version"] = "1";
  file[".storage_alignment"] = "64";
  file["byteorder"] = "little";
  file["version"] = "3\n";
  file[".data/serialization_id"] = std::string(40, '1');
  return file;
}

std::string float_bytes(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

}  // namespace kvasir::test
