// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/vector_file.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/mapped_file.h"
#include "base/npy_file.h"
#include "base/replaced_file.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr int kMostNumbers = 65536;  // in a vector

class Source {
 public:
  explicit Source(const std::string& path) : path_(path), file_(path) {}

  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, "`" + path_ + "` " + what);
  }

  VectorFile fvecs() const {
    const std::span<const std::byte> bytes = file_.bytes();
    VectorFile result;
    if (bytes.size() < sizeof(int32_t)) fail(ErrorCode::corrupt, "isn't an .fvecs file: it is too short");
    result.dim = dim_at(0);
    const size_t row = sizeof(int32_t) + size_t(result.dim) * sizeof(float);
    if (bytes.size() % row != 0) fail(ErrorCode::corrupt, "is cut off, or its vectors have different lengths");
    result.rows = int64_t(bytes.size() / row);
    result.values.resize(size_t(result.rows) * size_t(result.dim));
    for (size_t i = 0; i < size_t(result.rows); ++i) {
      if (dim_at(i * row) != result.dim) fail(ErrorCode::invalid_argument, "holds vectors of different lengths");
      std::memcpy(&result.values[i * size_t(result.dim)], bytes.data() + i * row + sizeof(int32_t),
                  row - sizeof(int32_t));
    }
    for (const float value : result.values)
      if (!std::isfinite(value)) fail(ErrorCode::invalid_argument, "holds NaN or infinity");
    return result;
  }

  VectorFile json() const {
    const std::span<const std::byte> bytes = file_.bytes();
    const char* text = reinterpret_cast<const char*>(bytes.data());
    const auto document = nlohmann::ordered_json::parse(text, text + bytes.size(), nullptr, false);
    if (document.is_discarded()) fail(ErrorCode::corrupt, "isn't valid JSON");
    const bool wrapped = document.is_object() && document.contains("vectors");
    const auto& vectors = wrapped ? document["vectors"] : document;
    if (!vectors.is_array() && !wrapped)
      fail(ErrorCode::unsupported, "has neither an array of vectors nor the key \"vectors\"");
    if (!vectors.is_array() && !vectors.is_object())
      fail(ErrorCode::unsupported, "has \"vectors\" that are neither an array nor an object");
    VectorFile result;
    for (const auto& [name, vector] : vectors.items()) {
      append(vector, result);
      if (vectors.is_object()) result.names.push_back(name);
    }
    if (result.rows == 0) fail(ErrorCode::invalid_argument, "holds no vectors");
    return result;
  }

 private:
  int dim_at(size_t offset) const {
    int32_t dim;
    std::memcpy(&dim, file_.bytes().data() + offset, sizeof dim);
    if (dim < 1 || dim > kMostNumbers)
      fail(ErrorCode::corrupt, "isn't an .fvecs file: a vector of " + std::to_string(dim) + " numbers");
    return dim;
  }
  void append(const nlohmann::ordered_json& vector, VectorFile& result) const {
    if (!vector.is_array() || vector.empty() || vector.size() > size_t(kMostNumbers))
      fail(ErrorCode::invalid_argument, "holds something else than arrays of 1 to 65536 numbers");
    if (result.rows == 0) result.dim = int(vector.size());
    if (int(vector.size()) != result.dim) fail(ErrorCode::invalid_argument, "holds vectors of different lengths");
    for (const auto& number : vector) {
      if (!number.is_number()) fail(ErrorCode::invalid_argument, "holds a vector with something else than numbers");
      const float value = number.get<float>();
      if (!std::isfinite(value)) fail(ErrorCode::invalid_argument, "holds a number that a float can't hold");
      result.values.push_back(value);
    }
    ++result.rows;
  }

  const std::string& path_;
  MappedFile file_;
};

}  // namespace

VectorFile read_vectors(const std::string& path) {
  if (path.ends_with(".npy")) {
    NpyMatrix matrix = read_npy(path);
    if (matrix.rows == 0) throw Error(ErrorCode::invalid_argument, "`" + path + "` holds no vectors");
    return {matrix.rows, matrix.dim, std::move(matrix.values), {}};
  }
  const Source source(path);
  if (path.ends_with(".fvecs")) return source.fvecs();
  if (path.ends_with(".json")) return source.json();
  source.fail(ErrorCode::unsupported, "has none of the endings .fvecs, .npy, .json");
}

void write_fvecs(const std::string& path, std::span<const float> values, int dim) {
  ReplacedFile file(path);
  const int32_t head = dim;
  std::vector<std::byte> rows;  // many rows a write
  constexpr size_t kFlush = size_t{1} << 20;
  for (size_t start = 0; start < values.size(); start += size_t(dim)) {
    const std::span<const std::byte> front = std::as_bytes(std::span(&head, 1));
    const std::span<const std::byte> row = std::as_bytes(values.subspan(start, size_t(dim)));
    rows.insert(rows.end(), front.begin(), front.end());
    rows.insert(rows.end(), row.begin(), row.end());
    if (rows.size() < kFlush) continue;
    file.write(rows);
    rows.clear();
  }
  file.write(rows);
  file.commit();
}

}  // namespace kvasir
