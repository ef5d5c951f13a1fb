// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/block_prefill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cache/cache_impl.h"
#include "kvasir/error.h"
#include "tests/host/logits.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::TemporaryFolder;
using test::TinyModel;

constexpr int kSink = 4;

class BlockPrefillTest : public ::testing::Test {
 protected:
  void load(const TinyModel& tiny, int micro_batch = 64, const std::string& kv = "f16") {
    model_ = test::tiny_model(folder_, tiny);
    EngineOptions options = test::plain_options(2000, micro_batch, kv);
    options.cache.sink = kSink;
    options.cache.recent = 0;
    engine_ = std::make_unique<Engine>(model_, options);
    text_ = test::random_tokens(700, model_->vocab_size(), 11);
    prompt_ = test::random_tokens(90, model_->vocab_size(), 12);
  }
  Cache& cache() const { return engine_->cache(); }
  const LayerGeometry& layer(int l) const { return cache().geometry().layers[size_t(l)]; }
  int layers() const { return int(cache().geometry().layers.size()); }

  SelectionOptions options(SelectionMethod method, int64_t budget) const {
    SelectionOptions options;
    options.method = method;
    options.budgets.assign(size_t(layers()), budget);
    options.block = 128;
    options.window = 20;
    const std::vector<int32_t> prompt = prompt_;
    options.prompt = [prompt](std::span<const int32_t>) { return prompt; };
    return options;
  }

  using Held = std::vector<std::vector<std::vector<int32_t>>>;  // [layers][kv_heads]
  Held held(SequenceId sequence) const {
    Held result;
    for (int l = 0; l < layers(); ++l) {
      result.emplace_back();
      for (int h = 0; h < layer(l).kv_heads; ++h) result.back().push_back(cache().positions(sequence, l, h));
    }
    return result;
  }
  int64_t held_tokens(SequenceId sequence, int l) const {
    int64_t total = 0;
    for (int h = 0; h < layer(l).kv_heads; ++h) total += int64_t(cache().positions(sequence, l, h).size());
    return total;
  }

  TemporaryFolder folder_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
  std::vector<int32_t> text_, prompt_;
};

constexpr SelectionMethod kMethods[] = {SelectionMethod::prompt, SelectionMethod::window,
                                        SelectionMethod::key_difference, SelectionMethod::recent};

TEST_F(BlockPrefillTest, WithRoomForAllNothingChanges) {
  load({.layers = 3});
  const SequenceId plain = cache().create();
  engine_->decode(plain, text_);
  const std::span<const float> last = engine_->decode(plain, prompt_);
  const std::vector<float> expected(last.begin(), last.end());
  for (const SelectionMethod method : kMethods) {
    BlockPrefill prefill(*engine_, options(method, 700));
    prefill.append(text_);
    prefill.finish();
    EXPECT_EQ(held_tokens(prefill.sequence(), 0), 2 * 700);
    const std::span<const float> got = engine_->decode(prefill.sequence(), prompt_);
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, double(std::abs(got[i] - expected[i])));
    // Other cuts into micro-batches: other kernels, and keys may round to the neighbouring f16 (see engine_test).
    EXPECT_LT(worst, 3 * 4.0 / 2048.0 * 4);
  }
}

TEST_F(BlockPrefillTest, HoldsItsBudgetsExactly) {
  load({.layers = 3, .heads = 6, .kv_heads = 3});
  for (const SelectionMethod method : kMethods) {
    SelectionOptions choice = options(method, 100);
    choice.budgets = {60, 90, 150};
    BlockPrefill prefill(*engine_, choice);
    prefill.append(text_);
    prefill.finish();
    for (int l = 0; l < 3; ++l) {
      EXPECT_EQ(held_tokens(prefill.sequence(), l), 3 * choice.budgets[size_t(l)]);
      for (int h = 0; h < 3; ++h) {
        const std::vector<int32_t> positions = cache().positions(prefill.sequence(), l, h);
        EXPECT_TRUE(std::equal(positions.begin(), positions.begin() + kSink, std::vector<int32_t>{0, 1, 2, 3}.begin()));
        EXPECT_GE(int64_t(positions.size()) - kSink, int64_t(0.2 * double(choice.budgets[size_t(l)] - kSink)));
      }
    }
    EXPECT_EQ(cache().length(prefill.sequence()), 700);
    // At most budget and block for each head and the prompt, in pages: rounding costs a page a head and layer.
    size_t most = 0;
    for (int l = 0; l < 3; ++l) {
      const size_t page = cache().impl().codecs[size_t(l)].page_bytes();
      most += 3 * page * size_t((choice.budgets[size_t(l)] + 128 + 90) / 64 + 3);
    }
    EXPECT_LT(prefill.peak_bytes(), most + cache().size(prefill.sequence()).windows);
  }
  EXPECT_EQ(cache().size().total(), 0u) << "and leaves nothing behind";
}

TEST_F(BlockPrefillTest, PortionsDoNotMatter) {
  load({.layers = 2}, 32);
  for (const SelectionMethod method : kMethods) {
    Held first;
    for (const size_t portion : {size_t(700), size_t(1), size_t(37), size_t(128)}) {
      BlockPrefill prefill(*engine_, options(method, 100));
      for (size_t done = 0; done < text_.size(); done += portion)
        prefill.append(std::span(text_).subspan(done, std::min(portion, text_.size() - done)));
      prefill.finish();
      if (first.empty()) first = held(prefill.sequence());
      EXPECT_EQ(held(prefill.sequence()), first) << portion;
    }
  }
}

// What is kept of the first block is what the definition says, worked out from keys and queries as the layers see them.
TEST_F(BlockPrefillTest, KeepsWhatThePromptLooksAt) {
  load({.layers = 2, .heads = 4, .kv_heads = 2}, 256);
  const std::span<const int32_t> block = std::span(text_).first(128);
  SelectionOptions choice = options(SelectionMethod::prompt, 50);
  choice.head_floor = 0;
  BlockPrefill prefill(*engine_, choice);
  prefill.append(block);
  const SequenceId whole = cache().fork(prefill.sequence());
  std::vector<std::vector<float>> queries(2);
  engine_->observe([&](int l, const AttentionRows& rows) {
    for (int t = 0; t < rows.tokens; ++t)
      for (int h = 0; h < 4; ++h) {
        const float* q = rows.q.data + t * rows.q.token_stride + h * rows.q.head_stride;
        queries[size_t(l)].insert(queries[size_t(l)].end(), q, q + 64);
      }
  });
  const SequenceId reader = cache().fork(whole);
  engine_->decode(reader, prompt_);
  engine_->observe({});
  prefill.finish();
  for (int l = 0; l < 2; ++l) {
    std::vector<std::tuple<double, int, int>> ranked;  // (-score, position, head)
    for (int head = 0; head < 2; ++head) {
      const std::vector<float> keys = cache().rows(whole, l, head, Side::key);
      std::vector<double> most(128, 0.0);
      for (int t = 0; t < 90; ++t)
        for (int g = 0; g < 2; ++g) {
          const float* q = &queries[size_t(l)][size_t((t * 4 + head * 2 + g) * 64)];
          std::vector<double> shares(128);
          double total = 0;
          for (int i = 0; i < 128; ++i) {
            double dot = 0;
            for (int c = 0; c < 64; ++c) dot += double(q[c]) * double(keys[size_t(i * 64 + c)]);
            total += shares[size_t(i)] = std::exp(double(layer(l).scale) * dot);
          }
          for (int i = 0; i < 128; ++i) most[size_t(i)] = std::max(most[size_t(i)], shares[size_t(i)] / total);
        }
      for (int i = kSink; i < 128; ++i) ranked.emplace_back(-most[size_t(i)], i, head);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::vector<int32_t>> expected(2, {0, 1, 2, 3});
    for (size_t i = 0; i < 2 * (50 - kSink); ++i)
      expected[size_t(std::get<2>(ranked[i]))].push_back(std::get<1>(ranked[i]));
    for (int head = 0; head < 2; ++head) {
      std::sort(expected[size_t(head)].begin(), expected[size_t(head)].end());
      EXPECT_EQ(cache().positions(prefill.sequence(), l, head), expected[size_t(head)]) << "layer " << l;
    }
  }
  cache().remove(reader);
  cache().remove(whole);
}

TEST_F(BlockPrefillTest, ForksShareWhatBothHaveRead) {
  load({.layers = 2});
  BlockPrefill base(*engine_, options(SelectionMethod::prompt, 150));
  base.append(std::span(text_).first(256));
  ASSERT_TRUE(base.over_budget());
  Held kept[2];
  for (int i = 0; i < 2; ++i) {
    SelectionOptions choice = options(SelectionMethod::prompt, 150);
    const std::vector<int32_t> prompt = test::random_tokens(60, model_->vocab_size(), uint64_t(100 + i));
    choice.prompt = [prompt](std::span<const int32_t>) { return prompt; };
    const std::unique_ptr<BlockPrefill> fork = base.fork(choice);
    for (int l = 0; l < 2; ++l)
      EXPECT_EQ(cache().rows(fork->sequence(), l, 0, Side::key), cache().rows(base.sequence(), l, 0, Side::key));
    fork->append(std::span(text_).subspan(256));
    fork->finish();
    EXPECT_EQ(fork->tokens_read(), 700 - 256 + 60 * 5) << "two blocks less, and five selections";
    kept[i] = held(fork->sequence());
    BlockPrefill alone(*engine_, choice);
    alone.append(text_);
    alone.finish();
    EXPECT_EQ(kept[i], held(alone.sequence()));
  }
  EXPECT_NE(kept[0], kept[1]) << "other prompts keep other tokens";
}

TEST_F(BlockPrefillTest, WindowsAndRecentTokensStay) {
  load({.layers = 2});
  BlockPrefill snap(*engine_, options(SelectionMethod::window, 60));
  snap.append(std::span(text_).first(300));
  snap.finish();
  for (int p = 280; p < 300; ++p)
    for (int head = 0; head < 2; ++head) {
      const std::vector<int32_t> positions = cache().positions(snap.sequence(), 1, head);
      EXPECT_TRUE(std::binary_search(positions.begin(), positions.end(), p)) << p;
    }
  BlockPrefill recent(*engine_, options(SelectionMethod::recent, 60));
  recent.append(std::span(text_).first(300));
  recent.finish();
  std::vector<int32_t> expected = {0, 1, 2, 3};
  for (int p = 300 - 56; p < 300; ++p) expected.push_back(p);
  EXPECT_EQ(cache().positions(recent.sequence(), 0, 1), expected);
}

TEST_F(BlockPrefillTest, SlidingWindowsForgetByThemselves) {
  load({.architecture = "gemma3", .layers = 4, .kv_heads = 1, .head_dim = 64, .window = 24, .window_period = 3});
  BlockPrefill prefill(*engine_, options(SelectionMethod::prompt, 80));
  prefill.append(text_);
  prefill.finish();
  for (int l = 0; l < 4; ++l) {
    if (layer(l).window > 0)
      EXPECT_LT(held_tokens(prefill.sequence(), l), 24 + 128 + kSink) << l;
    else
      EXPECT_EQ(held_tokens(prefill.sequence(), l), 80) << l;
  }
}

TEST_F(BlockPrefillTest, RefusesWhatCanNotBe) {
  load({.layers = 2});
  const auto refused = [&](const std::function<void(SelectionOptions&)>& change) {
    SelectionOptions choice = options(SelectionMethod::prompt, 100);
    change(choice);
    EXPECT_THROW(BlockPrefill(*engine_, choice), Error);
  };
  refused([](SelectionOptions& o) { o.budgets = {100}; });
  refused([](SelectionOptions& o) { o.budgets = {100, 3}; });  // below the sinks
  refused([](SelectionOptions& o) { o.block = 0; });
  refused([](SelectionOptions& o) { o.prompt = {}; });
  refused([](SelectionOptions& o) { o.head_floor = 1.5; });
  refused([](SelectionOptions& o) {
    o.method = SelectionMethod::window;
    o.budgets = {100, 20};
  });
  EXPECT_EQ(cache().size().total(), 0u);
  load({.layers = 2}, 64, "turbo3");
  EXPECT_THROW(BlockPrefill(*engine_, options(SelectionMethod::prompt, 100)), Error);
}

}  // namespace
}  // namespace kvasir
