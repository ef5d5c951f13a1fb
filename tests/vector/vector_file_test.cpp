// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "vector/vector_file.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/vector/samples.h"

namespace kvasir {
namespace {

using vector_test::refusal;
using vector_test::write_bytes;

class VectorFiles : public testing::Test {
 protected:
  VectorFile read(const std::string& name, const std::string& bytes) {
    write_bytes(folder_.file(name), bytes);
    return read_vectors(folder_.file(name));
  }
  ErrorCode code(const std::string& name, const std::string& bytes) {
    const auto [code, sentence] = refusal([&] { read(name, bytes); });
    EXPECT_NE(sentence.find(name), std::string::npos) << sentence;
    return code;
  }
  vector_test::Folder folder_;
};

TEST_F(VectorFiles, FvecsComeBack) {
  const std::vector<float> values = vector_test::normal_vectors(1000, 300, 1);
  write_fvecs(folder_.file("x.fvecs"), values, 300);
  EXPECT_EQ(vector_test::read_bytes(folder_.file("x.fvecs")).size(), 1000u * 301 * 4);
  const VectorFile file = read_vectors(folder_.file("x.fvecs"));
  EXPECT_EQ(file.rows, 1000);
  EXPECT_EQ(file.dim, 300);
  EXPECT_EQ(file.values, values);
}

TEST_F(VectorFiles, JsonOfEveryShape) {
  for (const char* text : {"[[1, 2.5], [-3e1, 4]]", "{\"vectors\": [[1, 2.5], [-3e1, 4]]}",
                           "{\"vectors\": {\"b\": [1, 2.5], \"a\": [-3e1, 4]}}"}) {
    const VectorFile file = read("x.json", text);
    EXPECT_EQ(file.rows, 2);
    EXPECT_EQ(file.dim, 2);
    EXPECT_EQ(file.values, (std::vector<float>{1, 2.5f, -30, 4}));
  }
  EXPECT_EQ(read("x.json", "{\"vectors\": {\"b\": [1], \"a\": [2]}}").names, (std::vector<std::string>{"b", "a"}));
}

TEST_F(VectorFiles, Npy) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  while ((10 + header.size()) % 64 != 0) header += ' ';
  const float values[] = {1, -2};
  const VectorFile file = read("x.npy", std::string("\x93NUMPY\x01\x00", 8) + char(header.size()) + '\0' + header +
                                            std::string(reinterpret_cast<const char*>(values), sizeof values));
  EXPECT_EQ(file.rows, 2);
  EXPECT_EQ(file.values, (std::vector<float>{1, -2}));
}

TEST_F(VectorFiles, Refusals) {
  EXPECT_EQ(code("x.json", ""), ErrorCode::corrupt);
  EXPECT_EQ(code("x.json", "[[1, 2], [3"), ErrorCode::corrupt);
  EXPECT_EQ(code("x.json", "7"), ErrorCode::unsupported);
  EXPECT_EQ(code("x.json", "{\"words\": []}"), ErrorCode::unsupported);
  EXPECT_EQ(code("x.json", "{\"vectors\": 7}"), ErrorCode::unsupported);
  EXPECT_EQ(code("x.json", "[]"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.json", "[[]]"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.json", "[1, 2]"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.json", "[[1, 2], [3]]"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.json", "[[1, \"2\"]]"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.json", "[[1, 1e300]]"), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.fvecs", ""), ErrorCode::corrupt);
  EXPECT_EQ(code("x.fvecs", "no vectors in here"), ErrorCode::corrupt);
  const auto row = [](int32_t dim, const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(&dim), 4) +
           std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  };
  EXPECT_EQ(code("x.fvecs", row(2, {1, 2}) + row(2, {1})), ErrorCode::corrupt);
  EXPECT_EQ(code("x.fvecs", row(2, {1, 2}) + row(1, {1, 2})), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.fvecs", row(-2, {1, 2})), ErrorCode::corrupt);
  EXPECT_EQ(code("x.fvecs", row(1 << 30, {1, 2})), ErrorCode::corrupt);
  EXPECT_EQ(code("x.fvecs", row(2, {1, std::numeric_limits<float>::infinity()})), ErrorCode::invalid_argument);
  EXPECT_EQ(code("x.csv", "1,2"), ErrorCode::unsupported);
  EXPECT_EQ(refusal([&] { read_vectors(folder_.file("absent.fvecs")); }).code, ErrorCode::not_found);
  EXPECT_EQ(refusal([&] { read_vectors(folder_.file("absent.npy")); }).code, ErrorCode::not_found);
}

}  // namespace
}  // namespace kvasir
