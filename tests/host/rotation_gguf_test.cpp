// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/rotation_gguf.h"

#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "calibrate/rotation_safetensors.h"
#include "host/rotation_files.h"
#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"
#include "tests/calibrate/rotation_samples.h"
#include "tests/calibrate/torch_file.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::fault_of;
using test::sample_rotations;

RotationSet sample(const test::SampleShape& shape) {
  RotationSet set = sample_rotations(shape);
  for (RotationLayer& layer : set.layers) layer.eigenvalues.clear();  // GGUF has none
  return set;
}

class RotationGguf : public testing::Test {
 protected:
  std::string path() const { return folder_.file("x.gguf"); }
  std::string fault(Side side = Side::key) const {
    return fault_of([&] { read_rotation_gguf(path(), side); });
  }
  void write(const RotationSet& set) const { write_rotation_gguf(std::span(&set, 1), path()); }

  test::TemporaryFolder folder_;
};

// A file of one tensor, ones on the diagonals, in a type and shape of the caller's.
void write_tensor(const std::string& path, const char* name, ggml_type type, const std::vector<int64_t>& shape) {
  const ggml_context_ptr memory(ggml_init({.mem_size = size_t(1) << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor* tensor = ggml_new_tensor(memory.get(), type, int(shape.size()), shape.data());
  ggml_set_name(tensor, name);
  std::memset(tensor->data, 0, ggml_nbytes(tensor));
  if (type == GGML_TYPE_F32) {
    for (int64_t i = 0; i < ggml_nelements(tensor); ++i) {
      const bool diagonal = i % (shape[0] * shape[0]) % (shape[0] + 1) == 0;
      static_cast<float*>(tensor->data)[i] = diagonal ? 1 : 0;
    }
  }
  const gguf_context_ptr file(gguf_init_empty());
  gguf_add_tensor(file.get(), tensor);
  ASSERT_TRUE(gguf_write_to_file(file.get(), path.c_str(), false));
}

TEST_F(RotationGguf, GivesBackWhatWasWritten) {
  for (const int heads : {0, 1, 3}) {
    const RotationSet set = sample({.layers = {0, 3, 12}, .dim = 16, .heads = heads});
    write(set);
    EXPECT_EQ(read_rotation_gguf(path(), Side::key), set) << heads;
    EXPECT_NE(fault(Side::value).find("no value rotations"), std::string::npos) << fault(Side::value);
    EXPECT_NE(fault(Side::value).find("it holds key rotations"), std::string::npos);
  }
}

TEST_F(RotationGguf, BothSidesInOneFile) {
  const std::vector<RotationSet> sets = {sample({.layers = {1}, .dim = 5}), sample({.side = Side::value, .heads = 2})};
  write_rotation_gguf(sets, path());
  EXPECT_EQ(read_rotation_gguf(path(), Side::key), sets[0]);
  EXPECT_EQ(read_rotation_gguf(path(), Side::value), sets[1]);
}

// What the transposition is for: ggml_mul_mat with the tensor as it lies in the file is x @ R.
TEST_F(RotationGguf, MulMatRotatesRows) {
  const int dim = 16;
  const RotationSet set = sample({.layers = {0}, .dim = dim});
  write(set);
  ggml_context* data = nullptr;
  const gguf_context_ptr file(gguf_init_from_file(path().c_str(), {.no_alloc = false, .ctx = &data}));
  const ggml_context_ptr owner(data);
  ASSERT_NE(file, nullptr);
  ggml_tensor* rotation = ggml_get_tensor(data, "blk.0.attn_k_rot.weight");
  ASSERT_NE(rotation, nullptr);

  const ggml_context_ptr memory(ggml_init({.mem_size = size_t(1) << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor* x = ggml_new_tensor_2d(memory.get(), GGML_TYPE_F32, dim, 3);
  for (int i = 0; i < 3 * dim; ++i) static_cast<float*>(x->data)[i] = float(i % 7) - 3;
  ggml_tensor* rotated = ggml_mul_mat(memory.get(), rotation, x);
  ggml_cgraph* graph = ggml_new_graph(memory.get());
  ggml_build_forward_expand(graph, rotated);
  ASSERT_EQ(ggml_graph_compute_with_ctx(memory.get(), graph, 1), GGML_STATUS_SUCCESS);
  for (int row = 0; row < 3; ++row) {
    for (int j = 0; j < dim; ++j) {
      double expected = 0;
      for (int i = 0; i < dim; ++i)
        expected += double(static_cast<float*>(x->data)[row * dim + i]) * set.layers[0].rotation[size_t(i * dim + j)];
      EXPECT_NEAR(static_cast<float*>(rotated->data)[row * dim + j], expected, 1e-5);
    }
  }
}

TEST_F(RotationGguf, ForeignFilesWithoutOurTexts) {
  write_tensor(path(), "blk.7.attn_v_rot.weight", GGML_TYPE_F32, {4, 4});
  const RotationSet shared = read_rotation_gguf(path(), Side::value);
  EXPECT_FALSE(shared.per_head);
  EXPECT_EQ(shared.layers[0].layer, 7);
  write_tensor(path(), "blk.0.attn_k_rot.weight", GGML_TYPE_F32, {1, 1, 3});
  EXPECT_TRUE(read_rotation_gguf(path(), Side::key).per_head);
}

TEST_F(RotationGguf, RefusesOtherFiles) {
  const auto expect_fault = [&](const char* name, ggml_type type, const std::vector<int64_t>& shape,
                                const std::string& part) {
    write_tensor(path(), name, type, shape);
    EXPECT_NE(fault().find(part), std::string::npos) << fault();
  };
  const char* name = "blk.0.attn_k_rot.weight";
  expect_fault(name, GGML_TYPE_F16, {4, 4}, "as f16");
  expect_fault(name, GGML_TYPE_F32, {4, 2}, "is [4, 2, 1, 1]");
  expect_fault(name, GGML_TYPE_F32, {2, 2, 2, 2}, "is [2, 2, 2, 2]");
  for (const char* other : {"blk.0.attn_k.weight", "blk..attn_k_rot.weight", "blk.-1.attn_k_rot.weight",
                            "blk.0x.attn_k_rot.weight", "attn_k_rot.weight"})
    expect_fault(other, GGML_TYPE_F32, {4, 4}, "no key rotations");
  test::write_tiny_gguf({}, path());
  EXPECT_NE(fault().find("no key rotations"), std::string::npos);

  RotationSet broken = sample({});
  write(broken);
  const std::string whole = test::read_bytes(path());
  const auto with_last_number = [&](float number) {
    std::string damaged = whole;
    std::memcpy(damaged.data() + damaged.size() - sizeof number, &number, sizeof number);
    test::write_bytes(path(), damaged);
    return fault();
  };
  const float nan = std::nanf("");
  EXPECT_NE(with_last_number(nan).find("NaN"), std::string::npos);
  EXPECT_NE(with_last_number(2).find("at most 0.001 is a rotation"), std::string::npos);
  broken.layers[0].rotation[0] = nan;
  EXPECT_NE(fault_of([&] { write(broken); }), "");
}

TEST_F(RotationGguf, DamageIsFoundOrHarmless) {
  const RotationSet set = sample({.dim = 4});
  write(set);
  const size_t bytes = test::read_bytes(path()).size(), numbers = 2 * 4 * 4 * sizeof(float);
  test::with_every_flip(path(), bytes - numbers, test::Bits::one_of_each_byte, [&](size_t) { fault(); });
  EXPECT_EQ(read_rotation_gguf(path(), Side::key), set);
  test::with_every_cut(path(), 5, [&](size_t size) { EXPECT_NE(fault(), "") << "cut to " << size; });
}

TEST(RotationFiles, AreToldApartByTheirBytes) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("rotations");  // no extension
  const RotationSet set = sample_rotations({}), bare = sample({});
  test::zoo_file(set).write(path);
  EXPECT_EQ(read_rotations(path, Side::key), set);
  write_rotation_safetensors(std::span(&set, 1), path);
  EXPECT_EQ(read_rotations(path, Side::key), set);
  write_rotation_gguf(std::span(&bare, 1), path);
  EXPECT_EQ(read_rotations(path, Side::key), bare);

  for (const std::string& bytes : {std::string(), std::string("\x80\x02}."), std::string("PK"), std::string("GGUF"),
                                   std::string(8, '\xff') + "{", std::string(100, 'x')}) {
    test::write_bytes(path, bytes);
    EXPECT_NE(fault_of([&] { read_rotations(path, Side::key); }), "") << bytes;
  }
  test::write_bytes(path, "\x80\x02}.");
  EXPECT_NE(fault_of([&] { read_rotations(path, Side::key); }).find("old format"), std::string::npos);
  EXPECT_NE(fault_of([&] { read_rotations(folder.file("absent"), Side::key); }).find("doesn't exist"),
            std::string::npos);
}

}  // namespace
}  // namespace kvasir
