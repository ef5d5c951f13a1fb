// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "kvasir/engine.h"
#include "kvasir/error.h"
#include "tests/host/logits.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using test::Distance;
using test::Logits;
using test::TemporaryFolder;
using test::tiny_model;
using test::TinyModel;

// llama.cpp rounds each query to f16 and sums values in f16 (unit roundoff 2^-11); Kvasir doesn't. A relative error of
// that size enters with each layer; the factor covers the growth through the layers above (steep softmaxes, gains of
// 1.5) and the largest of some 10^4 logits lying several deviations out.
double native_tolerance(int layers) {
  return 16.0 * layers / 2048.0;
}

// The same computation in another order: f32 roundoff through sums of up to about 10^3 terms. Where a batch has another
// shape llama.cpp picks other kernels, and keys may round to the neighbouring f16.
double order_tolerance(int layers) {
  return 4.0 * layers / 2048.0;
}

void expect_native(const TinyModel& tiny) {
  SCOPED_TRACE(std::string(tiny.architecture) + ", head dim " + std::to_string(tiny.head_dim));
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = tiny_model(folder, tiny);
  const std::vector<int32_t> tokens = test::random_tokens(170, model->vocab_size(), tiny.seed);
  const int prompt = 150, micro_batch = 64;
  Engine engine(model, test::plain_options(int64_t(tokens.size()), micro_batch));
  const Logits got = test::engine_logits(engine, engine.cache().create(), tokens, prompt);
  const Distance d = test::distance(got, test::native_logits(model, tokens, prompt, micro_batch));
  EXPECT_LE(d.error, native_tolerance(tiny.layers)) << "token " << d.worst_token << ", entry " << d.worst_entry;
  EXPECT_LE(d.divergence, 1e-4);
}

TEST(EngineAgainstNative, Llama) {
  for (const int dim : {64, 80, 96, 128, 256}) expect_native({.head_dim = dim});
  expect_native({.layers = 5, .heads = 9, .kv_heads = 3});
}
TEST(EngineAgainstNative, Qwen2WithKeyBiases) {
  expect_native({.architecture = "qwen2", .heads = 2, .kv_heads = 1, .embedding = 128});
}
TEST(EngineAgainstNative, Qwen3WithNormedKeys) {
  expect_native({.architecture = "qwen3", .head_dim = 128});
}
TEST(EngineAgainstNative, Gemma3BeyondItsWindow) {
  expect_native(
      {.architecture = "gemma3", .layers = 4, .kv_heads = 1, .head_dim = 256, .window = 24, .window_period = 3});
  expect_native({.architecture = "gemma3", .layers = 2, .window = 3});
}
TEST(EngineAgainstNative, Gemma2WithSoftCap) {
  expect_native({.architecture = "gemma2", .layers = 3, .window = 40, .softcap = 5.0f});
}
TEST(EngineAgainstNative, GptOssWithLearnedSinks) {
  expect_native({.architecture = "gpt-oss", .layers = 3, .window = 16});
}

class TinyEngine : public ::testing::Test {
 protected:
  TinyEngine()
      : model_(tiny_model(folder_, {.architecture = "gemma3", .layers = 3, .window = 20, .window_period = 3})) {}

  std::vector<int32_t> tokens(int count, uint64_t seed) const {
    return test::random_tokens(count, model_->vocab_size(), seed);
  }

  TemporaryFolder folder_;
  std::shared_ptr<Model> model_;
};

TEST_F(TinyEngine, SequencesInOneBatchEqualSingleRuns) {
  const std::vector<std::vector<int32_t>> texts = {tokens(90, 1), tokens(1, 2), tokens(33, 3), tokens(70, 4)};
  Engine alone(model_, test::plain_options(200, 48)), together(model_, test::plain_options(200, 48));
  std::vector<Logits> expected, got(texts.size());
  std::vector<EngineSpan> spans;
  for (const auto& text : texts) {
    expected.push_back(test::engine_logits(alone, alone.cache().create(), text, int(text.size())));
    spans.push_back({together.cache().create(), text, true});
  }
  std::vector<std::pair<int, int>> order;
  together.decode(spans, [&](int span, int token, const float* row) {
    order.emplace_back(span, token);
    got[size_t(span)].emplace_back(row, row + model_->vocab_size());
  });
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(got[i].size(), texts[i].size());
    EXPECT_LE(test::distance(got[i], expected[i]).error, order_tolerance(3)) << "sequence " << i;
    EXPECT_EQ(together.cache().length(spans[i].sequence), int64_t(texts[i].size()));
  }
  // Then one token for each, as a server does.
  const std::vector<int32_t> next = {7};
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::span<const float> row = alone.decode(SequenceId(i), next);
    expected[i] = {{row.begin(), row.end()}};
    got[i].clear();
    spans[i] = {spans[i].sequence, next, false};
  }
  together.decode(
      spans, [&](int span, int, const float* row) { got[size_t(span)].emplace_back(row, row + model_->vocab_size()); });
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_LE(test::distance(got[i], expected[i]).error, order_tolerance(3)) << "sequence " << i;
  }
}

TEST_F(TinyEngine, ChunkingDoesNotChangeLogitsOrBytes) {
  const std::vector<int32_t> text = tokens(230, 9);
  EngineOptions options = test::plain_options(400, 256, "turbo4");
  options.cache.sink = 16;
  options.cache.recent = 64;
  Engine whole(model_, options);
  const Logits expected = test::engine_logits(whole, whole.cache().create(), text, int(text.size()));
  for (const int micro_batch : {7, 64, 100}) {
    options.micro_batch = micro_batch;
    Engine chunked(model_, options);
    const Logits got = test::engine_logits(chunked, chunked.cache().create(), text, 200);
    // A key that rounds to another f16 may cross a codebook's border: a step of a 4-bit code, not an ulp.
    EXPECT_LE(test::distance(got, expected).divergence, 1e-3) << micro_batch;
    EXPECT_EQ(chunked.cache().size().total(), whole.cache().size().total()) << micro_batch;
  }
}

TEST_F(TinyEngine, LogitsOnlyWhereAskedFor) {
  Engine engine(model_, test::plain_options(100, 16));
  const std::vector<int32_t> a = tokens(20, 1), b = tokens(5, 2);
  const std::vector<EngineSpan> spans = {{engine.cache().create(), a, false}, {engine.cache().create(), b, true}};
  std::vector<std::pair<int, int>> rows;
  engine.decode(spans, [&](int span, int token, const float*) { rows.emplace_back(span, token); });
  const std::vector<std::pair<int, int>> expected = {{0, 19}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}};
  EXPECT_EQ(rows, expected);
}

// The error of a decode; nothing may have changed.
template <class Call>
std::pair<ErrorCode, std::string> error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "no error";
  return {ErrorCode::internal, ""};
}

TEST_F(TinyEngine, BadRequestsChangeNothing) {
  Engine engine(model_, test::plain_options(50, 16));
  const SequenceId sequence = engine.cache().create(), other = engine.cache().create();
  engine.decode(sequence, tokens(40, 1));
  const std::vector<int32_t> one = {5}, many = tokens(11, 2), wild = {5, test::kTinyVocabulary}, negative = {-1};

  const auto full = error_of([&] { engine.decode(sequence, many); });
  EXPECT_EQ(full.first, ErrorCode::context_full);
  EXPECT_NE(full.second.find("51"), std::string::npos) << full.second;
  EXPECT_NE(full.second.find("50"), std::string::npos) << full.second;
  EXPECT_EQ(error_of([&] { engine.decode(sequence, wild); }).first, ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { engine.decode(sequence, negative); }).first, ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { engine.decode(sequence, {}); }).first, ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { engine.decode(77, one); }).first, ErrorCode::invalid_argument);
  const std::vector<EngineSpan> twice = {{sequence, one, false}, {other, one, false}, {sequence, one, false}};
  EXPECT_EQ(error_of([&] { engine.decode(twice, {}); }).first, ErrorCode::invalid_argument);

  EXPECT_EQ(engine.cache().length(sequence), 40);
  EXPECT_EQ(engine.cache().length(other), 0);
  engine.decode(sequence, tokens(10, 3));
  EXPECT_EQ(engine.cache().length(sequence), 50);
}

TEST_F(TinyEngine, AFullPoolIsRefusedBeforeAnythingRuns) {
  EngineOptions options = test::plain_options(4096, 64, "q8");
  options.cache.sink = 0;
  options.cache.recent = 64;
  const size_t windows = plan_size(model_->geometry(), options.cache, 1000).windows;
  // Room for both sequences' windows and for the pages of one long text, but not of two.
  const size_t pages = plan_size(model_->geometry(), options.cache, 1000).pages;
  options.cache.budget = 2 * windows + pages * 3 / 2;
  Engine engine(model_, options);
  const std::vector<int32_t> text = tokens(1000, 1), longer = tokens(3000, 1);
  const SequenceId a = engine.cache().create(), b = engine.cache().create();
  EXPECT_EQ(error_of([&] { engine.decode(a, longer); }).first, ErrorCode::out_of_memory);
  const std::vector<EngineSpan> both = {{a, text, false}, {b, text, false}};
  EXPECT_EQ(error_of([&] { engine.decode(both, {}); }).first, ErrorCode::out_of_memory);
  EXPECT_EQ(engine.cache().length(a), 0);
  EXPECT_EQ(engine.cache().length(b), 0);
  engine.decode(a, text);
  EXPECT_EQ(engine.cache().length(a), 1000);
}

TEST_F(TinyEngine, AFailureHalfWayIsReportedOnceAndLeavesTheOthersAlone) {
  Engine engine(model_, test::plain_options(200, 16));
  const SequenceId gone = engine.cache().create(), hit = engine.cache().create(), idle = engine.cache().create();
  const std::vector<int32_t> text = tokens(8, 1), next = {3};
  for (const SequenceId sequence : {hit, idle}) engine.decode(sequence, text);

  // `gone` is removed after the first micro-batch, so that the second one fails inside llama.cpp.
  const std::vector<int32_t> long_text = tokens(20, 2);
  const std::vector<EngineSpan> spans = {{gone, long_text, true}, {hit, text, false}};
  bool removed = false;
  const auto failure = error_of([&] {
    engine.decode(spans, [&](int, int, const float*) {
      if (!removed) engine.cache().remove(gone);
      removed = true;
    });
  });
  EXPECT_EQ(failure.first, ErrorCode::invalid_argument) << failure.second;

  const auto again = error_of([&] { engine.decode(hit, next); });
  EXPECT_EQ(again.first, ErrorCode::internal);
  EXPECT_NE(again.second.find("feed it again"), std::string::npos) << again.second;
  Engine fresh(model_, test::plain_options(200, 16));
  const SequenceId reference = fresh.cache().create();
  const Logits expected = test::engine_logits(fresh, reference, text, 8);
  EXPECT_LE(test::distance(test::engine_logits(engine, hit, text, 8), expected).error, order_tolerance(3));
  const std::span<const float> after = engine.decode(idle, next), plain = fresh.decode(reference, next);
  EXPECT_LE(test::distance({{after.begin(), after.end()}}, {{plain.begin(), plain.end()}}).error, order_tolerance(3));
}

TEST(EngineOptionsCheck, LongRopeIsLimitedToItsShortFactors) {
  const TinyModel tiny = {.long_rope = 512};
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = tiny_model(folder, tiny);
  EXPECT_EQ(model->context_limit(), 512);
  const auto refused = error_of([&] { Engine engine(model, test::plain_options(513, 64)); });
  EXPECT_EQ(refused.first, ErrorCode::unsupported);
  EXPECT_NE(refused.second.find("-c 512"), std::string::npos) << refused.second;
  expect_native(tiny);
}

TEST(EngineOptionsCheck, NumbersBelowOneAreRefused) {
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = tiny_model(folder, {});
  EXPECT_EQ(model->context_limit(), 0);
  for (const auto& [context, micro_batch, threads] : {std::tuple{0, 16, 1}, {16, 0, 1}, {16, 16, 0}}) {
    EngineOptions options = test::plain_options(context, micro_batch);
    options.threads = threads;
    EXPECT_EQ(error_of([&] { Engine engine(model, options); }).first, ErrorCode::invalid_argument);
  }
}

TEST(NativeCache, TypesAndBytesAreTrue) {
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = tiny_model(folder, {.layers = 3, .kv_heads = 2, .head_dim = 64});
  const auto bytes = [&](const char* k, const char* v) { return NativeEngine(model, k, v, 512, 64, 1).cache_bytes(); };
  const size_t values = size_t(3) * 512 * 2 * 64;  // of one side
  EXPECT_EQ(bytes("f16", "f16"), values * 4);
  EXPECT_EQ(bytes("f32", "f32"), values * 8);
  EXPECT_EQ(bytes("q8_0", "q4_0"), values / 32 * (34 + 18));
  EXPECT_DOUBLE_EQ(NativeEngine(model, "q4_0", "q4_0", 512, 64, 1).bits_per_value(), 4.5);

  const auto unknown = error_of([&] { bytes("q3_7", "f16"); });
  EXPECT_EQ(unknown.first, ErrorCode::not_found);
  EXPECT_NE(unknown.second.find("q5_1"), std::string::npos) << unknown.second;

  const std::shared_ptr<Model> odd = tiny_model(folder, {.head_dim = 80});
  const auto refused = error_of([&] { NativeEngine(odd, "q4_0", "q4_0", 512, 64, 1); });
  EXPECT_EQ(refused.first, ErrorCode::unsupported);
  EXPECT_NE(refused.second.find("q4_0"), std::string::npos) << refused.second;
}

TEST(NativeCache, WindowedLayersTakeLess) {
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model =
      tiny_model(folder, {.architecture = "gemma3", .layers = 2, .kv_heads = 1, .head_dim = 64, .window = 30});
  const NativeEngine native(model, "f16", "f16", 2048, 64, 1);
  EXPECT_EQ(native.cache_bytes(), size_t(2048 + 256) * 64 * 4);  // 30 + 64 cells, padded to 256
}

TEST(NativeCache, ClearStartsOver) {
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = tiny_model(folder, {});
  NativeEngine native(model, "f16", "f16", 64, 16, 2);
  const std::vector<int32_t> text = test::random_tokens(40, model->vocab_size(), 5);
  const auto run = [&] {
    Logits logits;
    native.decode(text, false, [&](int span, int token, const float* row) {
      EXPECT_EQ(span, 0);
      EXPECT_EQ(token, 39);
      logits.emplace_back(row, row + model->vocab_size());
    });
    return logits;
  };
  const Logits first = run();
  EXPECT_EQ(error_of(run).first, ErrorCode::context_full);
  native.clear();
  EXPECT_EQ(run(), first);
}

}  // namespace
}  // namespace kvasir
