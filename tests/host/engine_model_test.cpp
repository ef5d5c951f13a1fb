// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "host/plan_geometry.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"
#include "kvasir/session.h"
#include "tests/base/temporary_folder.h"
#include "tests/host/logits.h"

namespace kvasir {
namespace {

// Text of the project itself, so that the test needs no other file: this source, read as prose.
std::string some_text() {
  std::ifstream file(__FILE__);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The model with F32 weights; skips the test where it was never fetched.
class RealModel : public ::testing::Test {
 protected:
  void load(const std::string& name) {
    try {
      path_ = resolve_model(name);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    model_ = Model::load(path_);
  }

  // Mean KL divergence of the engine's f16 cache from llama.cpp's own, over the second half of `count` tokens.
  void expect_native(int count, int micro_batch) {
    std::vector<int32_t> tokens = model_->tokenize(some_text(), true, false);
    ASSERT_GE(int(tokens.size()), count);
    tokens.resize(size_t(count));
    EngineOptions options = test::plain_options(count, micro_batch);
    options.threads = 2;
    Engine engine(model_, options);
    const test::Logits got = test::engine_logits(engine, engine.cache().create(), tokens, count - 8);
    const test::Distance d = test::distance(got, test::native_logits(model_, tokens, count - 8, micro_batch));
    RecordProperty("kld", std::to_string(d.divergence));
    EXPECT_LE(d.divergence, 1e-4);
    EXPECT_GE(d.top1, 0.99);
  }

  std::string path_;
  std::shared_ptr<Model> model_;
};

TEST_F(RealModel, SmolLm2EqualsNative) {
  load("smollm2-f32");
  if (!model_) return;
  EXPECT_EQ(model_->geometry().layers.size(), 30u);
  LayerGeometry expected;
  expected.heads = 9;
  expected.kv_heads = 3;
  expected.key_dim = expected.value_dim = 64;
  expected.scale = 0.125f;
  for (const LayerGeometry& layer : model_->geometry().layers) EXPECT_EQ(layer, expected);
  EXPECT_EQ(geometry_from_gguf(path_).layers, model_->geometry().layers);
  expect_native(400, 128);
}

// Stopped, saved, restored by another engine: the logits of one that never stopped, to the last bit.
TEST_F(RealModel, SmolLm2GoesOnFromASnapshot) {
  load("smollm2");
  if (!model_) return;
  const test::TemporaryFolder folder;
  std::vector<int32_t> tokens = model_->tokenize(some_text(), true, false);
  tokens.resize(500);
  const std::span<const int32_t> first(tokens.data(), 430), rest(tokens.data() + 430, 70);
  for (const char* kv : {"f16", "turbo4.5,turbo4", "turbo2"}) {
    EngineOptions options = test::plain_options(600, 128);
    parse_kv(kv, options.cache);
    options.cache.sink = 16;
    options.cache.recent = 64;
    options.threads = 2;
    Engine whole(model_, options), stopped(model_, options), resumed(model_, options);
    const SequenceId sequence = whole.cache().create(), source = stopped.cache().create();
    whole.decode(sequence, first);
    stopped.decode(source, first);
    save_sequence(stopped.cache(), source, {model_->fingerprint(), "smollm2", {}, ""}, folder.file("x"));
    const SequenceId restored = restore_sequence(resumed.cache(), folder.file("x"), model_->fingerprint()).sequence;
    EXPECT_GT(resumed.cache().size().mapped, 0u);
    const std::span<const float> expected = whole.decode(sequence, rest), got = resumed.decode(restored, rest);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin(), expected.end())) << kv;
  }
}

TEST_F(RealModel, SmolLm2SpeaksItsChatTemplate) {
  load("smollm2");
  if (!model_) return;
  const std::vector<Model::Message> turns = {{"system", "Be brief."}, {"user", "Hello"}};
  const std::string text = model_->apply_chat_template(turns, true);
  EXPECT_NE(text.find("<|im_start|>user\nHello<|im_end|>"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("<|im_start|>assistant\n")) << text;
}

TEST_F(RealModel, Gemma3EqualsNativeBeyondItsWindow) {
  load("gemma3-270m-f32");
  if (!model_) return;
  int windowed = 0;
  for (const LayerGeometry& layer : model_->geometry().layers) windowed += layer.window == 512;
  EXPECT_EQ(windowed, 15);
  EXPECT_EQ(geometry_from_gguf(path_).layers, model_->geometry().layers);
  expect_native(700, 256);
}

TEST_F(RealModel, Qwen25EqualsNative) {
  load("qwen2.5-coder-0.5b-f32");
  if (!model_) return;
  expect_native(300, 128);
}

}  // namespace
}  // namespace kvasir
