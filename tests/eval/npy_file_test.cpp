// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/npy_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "kvasir/error.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

std::string npy(const std::string& dictionary, const std::string& data) {
  std::string header = dictionary;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += char(header.size() & 0xff);
  bytes += char(header.size() >> 8);
  return bytes + header + data;
}

template <typename Value>
std::string raw(const std::vector<Value>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
}

class NpyFile : public testing::Test {
 protected:
  NpyMatrix read(const std::string& bytes) {
    const std::string path = folder_.file("x.npy");
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    return read_npy(path);
  }
  ErrorCode code(const std::string& bytes) {
    try {
      read(bytes);
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "was read";
    return ErrorCode::internal;
  }
  test::TemporaryFolder folder_;
};

constexpr const char* kTwoByThree = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

TEST_F(NpyFile, ReadsFloatsOfEveryWidth) {
  const NpyMatrix floats = read(npy(kTwoByThree, raw<float>({1, 2, 3, 4, 5, -6.5f})));
  EXPECT_EQ(floats.rows, 2);
  EXPECT_EQ(floats.dim, 3);
  EXPECT_EQ(floats.values, (std::vector<float>{1, 2, 3, 4, 5, -6.5f}));
  EXPECT_EQ(read(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }", raw<double>({0.5, -2}))).values,
            (std::vector<float>{0.5f, -2}));
  EXPECT_EQ(
      read(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }", raw<uint16_t>({0x3c00, 0xc000}))).values,
      (std::vector<float>{1, -2}));
}

TEST_F(NpyFile, LeadingDimensionsAreRows) {
  const NpyMatrix matrix =
      read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 1), }", raw<float>({1, 2, 3, 4})));
  EXPECT_EQ(matrix.rows, 4);
  EXPECT_EQ(matrix.dim, 1);
}

TEST_F(NpyFile, RefusesWhatItCantRead) {
  const std::string six = raw<float>({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(code("no numpy file at all"), ErrorCode::corrupt);
  EXPECT_EQ(code(""), ErrorCode::corrupt);
  EXPECT_EQ(code(npy(kTwoByThree, six.substr(4))), ErrorCode::corrupt);
  EXPECT_EQ(code(npy(kTwoByThree, six).substr(0, 30)), ErrorCode::corrupt);
  EXPECT_EQ(code(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", six)), ErrorCode::unsupported);
  EXPECT_EQ(code(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", six)), ErrorCode::unsupported);
  EXPECT_EQ(code(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", six)), ErrorCode::unsupported);
  EXPECT_EQ(code(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999, 999999999999, 3), }", six)),
            ErrorCode::corrupt);
  EXPECT_EQ(code(npy(kTwoByThree, raw<float>({1, 2, 3, 4, 5, std::numeric_limits<float>::quiet_NaN()}))),
            ErrorCode::invalid_argument);
  EXPECT_THROW(read_npy(folder_.file("nothing.npy")), Error);
}

}  // namespace
}  // namespace kvasir
