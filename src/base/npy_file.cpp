// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/npy_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/half.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

template <typename Value>
Value value_at(const std::string& bytes, size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// What stands behind the key in the Python dictionary of the header, {'descr': '<f4', 'fortran_order': False, 'shape':
// (1000, 128), }: from behind `open` up to `close`. Empty if it isn't there.
std::string entry(std::string_view header, std::string_view key, std::string_view open, std::string_view close) {
  const auto skip = [&](std::string_view text) {
    while (header.starts_with(' ')) header.remove_prefix(1);
    const bool there = header.starts_with(text);
    if (there) header.remove_prefix(text.size());
    return there;
  };
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at);
  if (!skip(key) || !skip(":") || !skip(open)) return {};
  return std::string(header.substr(0, header.find_first_of(close)));
}

// The numbers of "1000, 128".
std::vector<int64_t> numbers(std::string_view text) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < text.size();) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error == std::errc()) found.push_back(value);
    i = std::max(i + 1, size_t(end - text.data()));
  }
  return found;
}

}  // namespace

NpyMatrix read_npy(const std::string& path) {
  const auto fail = [&](ErrorCode code, const std::string& what) { throw Error(code, "`" + path + "` " + what); };
  if (!std::filesystem::is_regular_file(path)) fail(ErrorCode::not_found, "isn't a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::io, "can't be opened for reading");
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.size() < 12 || !std::string_view(bytes).starts_with("\x93NUMPY"))
    fail(ErrorCode::corrupt, "isn't a .npy file");
  const bool short_header = bytes[6] == 1;
  const size_t start = short_header ? 10 : 12;
  const size_t length = short_header ? value_at<uint16_t>(bytes, 8) : value_at<uint32_t>(bytes, 8);
  if (length > bytes.size() - start) fail(ErrorCode::corrupt, "is cut off inside its header");
  const std::string header = bytes.substr(start, length);

  const std::string type = entry(header, "'descr'", "'", "'"), shape = entry(header, "'shape'", "(", ")");
  if (type != "<f2" && type != "<f4" && type != "<f8")
    fail(ErrorCode::unsupported, "holds '" + type + "'; <f2, <f4 and <f8 work");
  if (entry(header, "'fortran_order'", "", ", }") != "False")
    fail(ErrorCode::unsupported, "is in Fortran order; save it in C order");

  if (shape.find('-') != std::string::npos) fail(ErrorCode::corrupt, "has a negative extent: (" + shape + ")");
  const std::vector<int64_t> extents = numbers(shape);
  if (extents.size() < 2 || extents.back() < 1 || extents.back() > 65536)
    fail(ErrorCode::unsupported, "has the shape (" + shape + "); rows of vectors are needed");
  const size_t width = size_t(type[2] - '0'), available = (bytes.size() - start - length) / width;
  NpyMatrix matrix;
  matrix.dim = int(extents.back());
  matrix.rows = 1;
  for (size_t i = 0; i + 1 < extents.size(); ++i) {
    const bool fits = size_t(extents[i]) <= available;  // before the product, which could wrap
    if (fits) matrix.rows *= extents[i];
    if (!fits || size_t(matrix.rows) > available) fail(ErrorCode::corrupt, "holds fewer numbers than its shape says");
  }
  const size_t count = size_t(matrix.rows) * size_t(matrix.dim);
  if (count > available) fail(ErrorCode::corrupt, "holds fewer numbers than its shape says");
  matrix.values.resize(count);
  for (size_t i = 0, offset = start + length; i < count; ++i, offset += width) {
    float& value = matrix.values[i];
    value = width == 2   ? f16_to_float(value_at<uint16_t>(bytes, offset))
            : width == 4 ? value_at<float>(bytes, offset)
                         : float(value_at<double>(bytes, offset));
    if (!std::isfinite(value)) fail(ErrorCode::invalid_argument, "holds NaN or infinity");
  }
  return matrix;
}

}  // namespace kvasir
