// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/layer_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "kvasir/error.h"
#include "tests/host/logits.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

ProfileOptions small_options() {
  ProfileOptions options;
  options.tokens = 300;
  options.block = 64;
  options.sink = 4;
  options.micro_batch = 48;
  return options;
}

// Keys of each token, layer by layer, from passes of their own: token i of the cut one sees the sinks, its block and
// the second half of the one before, by feeding it just those.
TEST(LayerProfile, IsTheCosineOfTwoPasses) {
  const test::TemporaryFolder folder;
  const std::shared_ptr<Model> model = test::tiny_model(folder, {.layers = 3, .kv_heads = 2});
  const std::vector<int32_t> tokens = test::random_tokens(400, model->vocab_size(), 5);
  const LayerProfile profile = profile_layers(model, tokens, small_options());
  EXPECT_EQ(profile.tokens, 300);
  ASSERT_EQ(profile.similarity.size(), 3u);
  EXPECT_NEAR(profile.similarity[0], 1.0, 1e-6) << "the first layer's keys don't depend on the past";
  EXPECT_LT(profile.similarity[1], 1.0 - 1e-4);
  for (const double s : profile.similarity) EXPECT_LE(s, 1.0 + 1e-9);

  std::vector<std::vector<float>> keys[2];  // [pass][layer]
  for (int pass = 0; pass < 2; ++pass) {
    keys[pass].resize(3);
    EngineOptions options = test::plain_options(300, 64);
    options.cache.sink = 4;
    options.cache.recent = 0;
    options.observe = [&](int layer, const AttentionRows& rows) {
      for (int t = 0; t < rows.tokens; ++t)
        for (int head = 0; head < 2; ++head) {
          const float* k = rows.k.data + t * rows.k.token_stride + head * rows.k.head_stride;
          keys[pass][size_t(layer)].insert(keys[pass][size_t(layer)].end(), k, k + 64);
        }
    };
    Engine engine(model, options);
    const SequenceId sequence = engine.cache().create();
    for (int first = 0; first < 300; first += 64) {
      engine.decode(sequence, std::span(tokens).subspan(size_t(first), size_t(std::min(64, 300 - first))));
      if (pass == 0 || first + 64 > 300) continue;
      std::vector<int32_t> kept(32);
      std::iota(kept.begin(), kept.end(), first + 32);
      for (int layer = 0; layer < 3; ++layer)
        engine.cache().keep(sequence, layer, std::vector<std::vector<int32_t>>(2, kept));
    }
  }
  for (size_t layer = 0; layer < 3; ++layer) {
    double sum = 0;
    for (size_t row = 0; row < 600; ++row) {
      double dot = 0, aa = 0, bb = 0;
      for (size_t c = 0; c < 64; ++c) {
        const double a = double(keys[0][layer][row * 64 + c]), b = double(keys[1][layer][row * 64 + c]);
        dot += a * b;
        aa += a * a;
        bb += b * b;
      }
      sum += dot / std::sqrt(aa * bb);
    }
    // Other cuts into micro-batches round some keys to the neighbouring f16.
    EXPECT_NEAR(profile.similarity[layer], sum / 600, 1e-3) << layer;
  }
}

TEST(LayerProfile, LeavesSlidingWindowsAlone) {
  const test::TemporaryFolder folder;
  const std::shared_ptr<Model> model = test::tiny_model(
      folder, {.architecture = "gemma3", .layers = 6, .kv_heads = 1, .head_dim = 64, .window = 24, .window_period = 3});
  const LayerProfile profile = profile_layers(model, test::random_tokens(200, model->vocab_size(), 6), small_options());
  const std::vector<int64_t> budgets = profiled_budgets(*model, profile, 100, 2);
  int64_t total = 0, layers = 0;
  for (size_t l = 0; l < 6; ++l) {
    if (model->geometry().layers[l].window > 0) {
      EXPECT_EQ(profile.similarity[l], 1.0);
    } else {
      total += budgets[l];
      ++layers;
    }
  }
  EXPECT_EQ(total, layers * 100);
}

TEST(LayerProfile, IsKept) {
  const test::TemporaryFolder folder;
  const LayerProfile profile{"0123456789abcdef", "a text", 300, 64, 4, {0.25, 0.5, 1.0}};
  const std::string path = folder.file("deeper/profile.json");
  save_profile(profile, path);
  EXPECT_EQ(load_profile(path), profile);
  for (
      const char* bad :
      {"", "{}", "[1,2]", R"({"format":"kvasir layer profile 2"})",
       R"({"format":"kvasir layer profile 1","model":"a","text":"b","tokens":1,"block":1,"sink":1,"similarity":[3.0]})"}) {
    std::ofstream(path) << bad;
    EXPECT_THROW(load_profile(path), Error) << bad;
  }
  EXPECT_THROW(load_profile(folder.file("none.json")), Error);
}

TEST(LayerProfile, RefusesWhatSaysNothing) {
  const test::TemporaryFolder folder;
  const std::shared_ptr<Model> model = test::tiny_model(folder, {.layers = 2});
  const std::vector<int32_t> tokens = test::random_tokens(64, model->vocab_size(), 7);
  EXPECT_THROW(profile_layers(model, tokens, small_options()), Error) << "nothing is cut";
  ProfileOptions options = small_options();
  options.block = 0;
  EXPECT_THROW(profile_layers(model, tokens, options), Error);
  EXPECT_THROW(profiled_budgets(*model, {"other", "", 1, 1, 1, {0.5, 0.5}}, 100, 2), Error);
}

}  // namespace
}  // namespace kvasir
