// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"

namespace kvasir {
namespace {

class Safetensors : public testing::Test {
 protected:
  std::string path() const { return folder_.file("x.safetensors"); }

  std::string content() const { return test::read_bytes(path()); }
  void write(const std::string& bytes) const { test::write_bytes(path(), bytes); }
  // A file of this header, as long as it says, and that many bytes of data.
  void write(const std::string& header, size_t data) const {
    const uint64_t length = header.size();
    write(std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data, '\1'));
  }
  // What reading the file says; "" if nothing is wrong.
  std::string fault(ErrorCode code = ErrorCode::corrupt) const {
    try {
      const SafetensorsFile file(path());
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
  }
  void expect_fault(const std::string& header, size_t data, const std::string& part) const {
    write(header, data);
    EXPECT_NE(fault().find(part), std::string::npos) << header << "\n" << fault();
  }

  void save_small() const {
    const std::vector<float> floats = {1, -2.5f, 3, 4, 5, 6};
    const std::vector<uint8_t> bytes = {7, 8, 9};
    const std::vector<double> doubles = {0.1};
    SafetensorsWriter writer;
    writer.set_metadata("format", "test");
    writer.set_metadata("text", "two \"words\"\n");
    writer.add("bytes", {3}, bytes);
    writer.add("floats", {2, 3}, floats);
    writer.add("number", {}, doubles);
    writer.add("nothing", {0, 4}, std::span<const int32_t>());
    writer.save(path());
  }

  test::TemporaryFolder folder_;
};

std::string one(const std::string& fields) {
  return "{\"a\":{" + fields + "}}";
}

TEST_F(Safetensors, GivesBackWhatWasWritten) {
  save_small();
  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata("text"), "two \"words\"\n");
  EXPECT_EQ(file.metadata().size(), 2u);
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensor("floats").shape, (TensorShape{2, 3}));
  const std::span<const float> floats = file.values<float>("floats", {2, 3});
  EXPECT_EQ(std::vector<float>(floats.begin(), floats.end()), (std::vector<float>{1, -2.5f, 3, 4, 5, 6}));
  EXPECT_EQ(file.values<double>("number")[0], 0.1);
  EXPECT_EQ(file.values<uint8_t>("bytes")[2], 9);
  EXPECT_TRUE(file.values<int32_t>("nothing").empty());
  EXPECT_EQ(file.floats("number"), std::vector<float>{0.1f});
  EXPECT_FALSE(file.has("absent"));
}

TEST_F(Safetensors, BytesDependOnContentAlone) {
  save_small();
  const std::string first = content();
  const std::vector<float> floats = {1, -2.5f, 3, 4, 5, 6};
  const std::vector<uint8_t> bytes = {7, 8, 9};
  const std::vector<double> doubles = {0.1};
  SafetensorsWriter writer;
  writer.add("nothing", {0, 4}, std::span<const int32_t>());
  writer.add("number", {}, doubles);
  writer.add("floats", {2, 3}, floats);
  writer.add("bytes", {3}, bytes);
  writer.set_metadata("text", "two \"words\"\n");
  writer.set_metadata("format", "test");
  writer.save(path());
  EXPECT_EQ(content(), first);
  uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
}

TEST_F(Safetensors, ReadsHalves) {
  const std::vector<uint16_t> halves = {float_to_f16(1.5f), float_to_f16(-2)};
  const std::vector<uint16_t> brains = {float_to_bf16(1.5f), float_to_bf16(-2)};
  SafetensorsWriter writer;
  writer.add_bytes("half", TensorType::f16, {2}, std::as_bytes(std::span(halves)));
  writer.add_bytes("brain", TensorType::bf16, {2}, std::as_bytes(std::span(brains)));
  writer.add("code", {2}, halves);
  writer.save(path());
  const SafetensorsFile file(path());
  EXPECT_EQ(file.floats("half"), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(file.floats("brain"), (std::vector<float>{1.5f, -2}));
  EXPECT_THROW(file.floats("code"), Error);
}

TEST_F(Safetensors, SaysWhatIsMissingOrDifferent) {
  save_small();
  const SafetensorsFile file(path());
  EXPECT_THROW(file.metadata("absent"), Error);
  EXPECT_THROW(file.tensor("absent"), Error);
  EXPECT_THROW(file.values<double>("floats"), Error);
  try {
    file.values<float>("floats", {3, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "the tensor floats of `" + path() + "` is [2, 3] instead of [3, 2]");
  }
}

TEST_F(Safetensors, WriterRefusesWhatDoesntFit) {
  const std::vector<float> values(6);
  SafetensorsWriter writer;
  EXPECT_THROW(writer.add("a", {2, 2}, values), Error);
  EXPECT_THROW(writer.add("a", {-1, -6}, values), Error);
  EXPECT_THROW(writer.add("__metadata__", {6}, values), Error);
  writer.add("a", {6}, values);
  EXPECT_THROW(writer.add("a", {6}, values), Error);
  writer.set_metadata("key", "\xff");
  EXPECT_THROW(writer.set_metadata("key", "value"), Error);
  EXPECT_THROW(writer.save(path()), Error);  // not UTF-8
}

// Layouts that other writers produce: spaces in front of values, no metadata, no tensors, any order.
TEST_F(Safetensors, AcceptsForeignLayouts) {
  write("{}", 0);
  EXPECT_EQ(fault(), "");
  write(
      "{ \"a\" : {\"shape\":[2], \"data_offsets\":[4,6],\"dtype\":\"U8\"},\"b\":{\"dtype\":\"I32\",\"shape\":[],"
      "\"data_offsets\":[0,4]}}   ",
      6);
  EXPECT_EQ(fault(), "");
}

TEST_F(Safetensors, RefusesBrokenHeaders) {
  for (const char* bytes : {"", "{}", "\x02\0\0\0\0\0\0"}) {
    write(bytes);
    EXPECT_NE(fault(), "");
  }
  write(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  EXPECT_NE(fault().find("at most"), std::string::npos);
  write(std::string("\x03\0\0\0\0\0\0\0{}", 10));
  EXPECT_NE(fault().find("cut off"), std::string::npos);
  expect_fault("", 0, "isn't a safetensors file");
  expect_fault("[]", 0, "isn't a safetensors file");
  expect_fault("{} {}", 0, "valid JSON");
  expect_fault("{\"a\xff\":1}", 0, "valid JSON");
  expect_fault("{\"a\":[[[[]]]]}", 0, "levels");
  expect_fault("{\"a\":1}", 0, "something else");
  expect_fault("{\"__metadata__\":{\"a\":1}}", 0, "no text");
  expect_fault("{\"__metadata__\":[]}", 0, "no JSON object");
  expect_fault("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice");
}

TEST_F(Safetensors, RefusesBrokenTensors) {
  expect_fault(one(R"("dtype":"F32","shape":[1])"), 4, "something else");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1)"), 4, "something else");
  expect_fault(one(R"("dtype":4,"shape":[1],"data_offsets":[0,4])"), 4, "no text");
  expect_fault(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4, "whole numbers");
  expect_fault(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4, "whole numbers");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615])"), 4, "whole numbers");
  expect_fault(one(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), 4, "no short list");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[4])"), 4, "outside");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, "outside");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 3, "cut off");
  expect_fault(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, "4 bytes for the tensor a of F32 [2]");
  expect_fault(one(R"("dtype":"F32","shape":[4611686018427387904,4,1],"data_offsets":[0,0])"), 0, "0 bytes");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 5, "behind");
  expect_fault(one(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])"), 5, "between");
  const std::string four = R"({"dtype":"U8","shape":[4],"data_offsets":)";
  expect_fault("{\"a\":" + four + "[0,4]},\"b\":" + four + "[3,7]}}", 7, "overlap");
  expect_fault("{\"a\":" + four + "[0,4]},\"b\":" + four + "[5,9]}}", 9, "between");
  expect_fault("{\"a\":" + four + "[0,4]},\"a\":" + four + "[4,8]}}", 8, "twice");
  write(one(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), 4);
  EXPECT_NE(fault(ErrorCode::unsupported).find("F8_E4M3"), std::string::npos);
  // Readable, but its numbers can't be used in place.
  write(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])") + " ", 4);
  const SafetensorsFile odd(path());
  EXPECT_THROW(odd.values<float>("a"), Error);
  EXPECT_EQ(odd.floats("a").size(), 1u);
}

// Every cut and every changed bit in front of the data: an error, or a file as sound as any.
TEST_F(Safetensors, DamageIsFoundOrHarmless) {
  save_small();
  const std::string whole = content();
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  size_t sum_of_data = 0;
  for (size_t at = 8 + size_t(length); at < whole.size(); ++at) sum_of_data += uint8_t(whole[at]);
  int read = 0;
  test::with_every_flip(path(), 8 + size_t(length), test::Bits::all, [&](size_t at) {
    try {
      const SafetensorsFile file(path());
      size_t bytes = 0, sum = 0;
      for (const auto& [name, view] : file.tensors()) {
        bytes += view.bytes.size();
        for (const std::byte value : view.bytes) sum += size_t(value);
      }
      EXPECT_EQ(bytes, whole.size() - 8 - length) << at;
      EXPECT_EQ(sum, sum_of_data) << at;
      ++read;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported) << error.what();
    }
  });
  EXPECT_GT(read, 0);  // letters of names
  EXPECT_EQ(content(), whole);
  test::with_every_cut(path(), 1, [&](size_t size) { EXPECT_NE(fault(), "") << "cut to " << size; });
}

}  // namespace
}  // namespace kvasir
