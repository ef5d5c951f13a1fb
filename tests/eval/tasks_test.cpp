// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The tasks on a tiny model: it knows nothing, so what is checked is that questions are put right.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "eval/context_reader.h"
#include "eval/document.h"
#include "eval/generation_agreement.h"
#include "eval/needle_task.h"
#include "eval/perplexity.h"
#include "eval/recall_task.h"
#include "eval/ruler_task.h"
#include "eval/task_prompt.h"
#include "kvasir/error.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

class Tasks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder();
    test::write_tiny_gguf({}, folder_->file("tiny.gguf"));
    model_ = Model::load(folder_->file("tiny.gguf"));
  }
  static void TearDownTestSuite() {
    model_.reset();
    delete folder_;
  }
  // Every method over a dialogue of 6,000 tokens, without a budget yet.
  static RecallOptions small_recall() {
    RecallOptions options;
    options.setup = setup("f16", 6000);
    options.length = 6000;
    options.facts = 4;
    options.updates = 1;
    options.topics = 2;
    options.answer_tokens = 2;
    options.alpha = 0;
    options.methods = {"full", "streaming", "snapkv", "keydiff", "infinipot", "kvzip", "epicache", "rag"};
    return options;
  }
  static EvalSetup setup(const std::string& kv, int64_t context) {
    EvalSetup setup;
    setup.model = model_;
    CacheOptions windows;
    windows.sink = 16;
    windows.recent = 64;
    setup.kv = SourceSpec::parse(kv, windows);
    setup.context = context;
    setup.micro_batch = 256;
    setup.threads = 1;
    return setup;
  }
  static const Model& model() { return *model_; }

 private:
  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline std::shared_ptr<Model> model_;
};

std::vector<int32_t> tokens_of(const Model& model, const std::string& text) {
  return tokenize_continuation(model, "", text, false);
}

// The fork's answer is that of a cache which read everything in one go, and asking leaves the context as it was.
TEST_F(Tasks, AskingSeveralTimesIsAskingFreshly) {
  const std::string text = write_document(1, 3).text;
  const std::vector<int32_t> context = tokens_of(model(), text), right = tokens_of(model(), " 12345");
  const auto reader = make_reader(setup("turbo4", 2048), 2048), fresh = make_reader(setup("turbo4", 2048), 2048);
  reader->read(context);
  for (const std::string question : {"Where is it?", "Who was there?", "Where is it?"}) {
    const std::vector<int32_t> asked = tokens_of(model(), question);
    std::vector<int32_t> all = context;
    all.insert(all.end(), asked.begin(), asked.end());
    const ReadAnswer shared = reader->ask({asked, right, 12, {}});
    fresh->restart();
    const ReadAnswer alone = fresh->ask({all, right, 12, {}});
    EXPECT_EQ(shared.text, alone.text);
    EXPECT_EQ(shared.right_tokens, right.size());
    EXPECT_LT(shared.right_log_likelihood, 0);
    EXPECT_NEAR(shared.right_log_likelihood, alone.right_log_likelihood, 0.02 * double(right.size()));
    EXPECT_EQ(reader->use().bytes, fresh->use().bytes);
  }
}

TEST_F(Tasks, LlamaCppsOwnCacheGivesTheSameLikelihood) {
  const std::vector<int32_t> context = tokens_of(model(), write_document(2, 2).text);
  const std::vector<int32_t> asked = tokens_of(model(), "So?"), right = tokens_of(model(), " harbour");
  std::vector<double> likelihoods;
  for (const std::string kv : {"f16", "native"}) {
    const auto reader = make_reader(setup(kv, 1024), 1024);
    reader->read(context);
    likelihoods.push_back(reader->ask({asked, right, 4, {}}).right_log_likelihood);
  }
  EXPECT_NEAR(likelihoods[0], likelihoods[1], 0.02 * double(right.size()));
}

// Where the right answer is the greedy one, llama.cpp's cache needn't be filled again for it.
TEST_F(Tasks, LlamaCppsOwnCacheAnswersTheSameWhateverIsRight) {
  const auto reader = make_reader(setup("native", 256), 256);
  reader->read(tokens_of(model(), "The grass is green."));
  const std::vector<int32_t> asked = tokens_of(model(), "And the sky?");
  const std::string text = reader->ask({asked, {}, 6, {}}).text;
  const auto enough = [&](std::string_view answer) { return answer == text; };
  const std::vector<int32_t> right = tokens_of(model(), text), wrong = tokens_of(model(), " is far");
  EXPECT_EQ(reader->ask({asked, right, 6, enough}).text, text);
  EXPECT_EQ(reader->ask({asked, wrong, 6, enough}).text, text);
}

TEST_F(Tasks, AnAnswerEndsWhenItIsEnough) {
  const auto reader = make_reader(setup("f16", 256), 256);
  const std::vector<int32_t> asked = tokens_of(model(), "anything at all");
  int looked = 0;
  const auto enough = [&](std::string_view) { return ++looked == 3; };
  const ReadAnswer answer = reader->ask({asked, {}, 50, enough});
  EXPECT_LE(looked, 3);
  EXPECT_EQ(answer.right_tokens, 0u);
}

void expect_frame(const Json& result, double n) {
  EXPECT_EQ(result.at("n"), n);
  EXPECT_GE(result.at("score"), 0.0);
  EXPECT_LE(result.at("score"), 1.0);
  EXPECT_LT(result.at("answer_logprob"), 0.0);
  EXPECT_GT(result.at("bits_per_value"), 0.0);
  EXPECT_GT(result.at("bytes_f16"), result.at("bytes"));
}

TEST_F(Tasks, NeedleGridInBothModes) {
  NeedleOptions options;
  options.setup = setup("turbo4", 2048);
  options.lengths = {1024, 2048};
  options.depths = {90, 10, 50};
  options.answer_tokens = 8;
  int64_t asked = 0;
  options.setup.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++asked);
    EXPECT_EQ(total, 6);
  };
  for (const NeedleMode mode : {NeedleMode::single, NeedleMode::multi}) {
    asked = 0;
    options.mode = mode;
    const Json result = run_needle(options);
    expect_frame(result, 6);
    EXPECT_EQ(asked, 6);
    ASSERT_EQ(result.at("cells").size(), 6u);
    EXPECT_EQ(result.at("cells")[0].at("depth"), 10.0);
    EXPECT_EQ(result.at("cells")[5].at("length"), 2048);
    asked = 0;
    EXPECT_EQ(run_needle(options).dump(), result.dump()) << "not the same again";
  }
  options.lengths = {100};
  EXPECT_THROW(run_needle(options), Error);
}

TEST_F(Tasks, RulerFillsTheLength) {
  RulerOptions options;
  options.setup = setup("turbo4", 2048);
  options.lengths = {2048};
  options.tasks = {"niah_single_2", "vt"};
  options.samples = 1;
  const Json result = run_ruler(options);
  expect_frame(result, 2);
  for (const Json& cell : result.at("cells")) {
    EXPECT_LE(cell.at("tokens"), 2048.0);
    EXPECT_GT(cell.at("tokens"), 2048.0 - 250) << cell.dump();  // a sentence of bytes
  }
  options.no_context = true;
  EXPECT_LT(run_ruler(options).at("bytes"), result.at("bytes"));
}

TEST_F(Tasks, RecallAsksEveryFact) {
  RecallOptions options;
  options.setup = setup("turbo4", 8192);
  options.length = 8192;
  options.facts = 5;
  options.updates = 2;
  options.topics = 5;
  options.answer_tokens = 4;
  const Json result = run_recall(options);
  expect_frame(result, 5);
  const Json& full = result.at("methods").at("full");
  EXPECT_EQ(full.at("n"), 5);
  EXPECT_EQ(full.at("updated").at("n"), 2);
  EXPECT_EQ(full.at("tokens_read"), result.at("tokens")[0]);
  size_t asked = 0;
  for (const Json& cell : result.at("cells")) asked += cell.at("n").get<size_t>();
  EXPECT_EQ(asked, 5u);
}

// A budget that holds everything: whatever chooses tokens, there is nothing to choose.
TEST_F(Tasks, RecallMethodsAgreeWhereNothingIsDropped) {
  RecallOptions options = small_recall();
  options.budget = 6000;
  options.block = 1024;
  options.episodes = 2;
  const Json methods = run_recall(options).at("methods");
  const double expected = methods.at("full").at("answer_logprob");
  for (const auto& [name, method] : methods.items())
    EXPECT_NEAR(method.at("answer_logprob").get<double>(), expected, 0.02) << name;
  EXPECT_FALSE(methods.at("full").contains("against_first"));
  const Json& against = methods.at("snapkv").at("against_first");
  EXPECT_NEAR(against.at("answer_logprob").get<double>(),
              methods.at("snapkv").at("answer_logprob").get<double>() - expected, 1e-9);
  EXPECT_LT(against.at("answer_logprob_se"), methods.at("full").at("answer_logprob_se")) << "of the same questions";
  EXPECT_EQ(methods.at("snapkv").at("answer_logprobs").size(), methods.at("snapkv").at("n"));
  EXPECT_GT(methods.at("epicache").at("routed").get<double>(), 0.0);
  EXPECT_FALSE(methods.at("snapkv").contains("routed"));
  EXPECT_LT(methods.at("epicache").at("tokens_read").get<int64_t>(), 6000 * 1.2) << "what is the same is read once";
}

TEST_F(Tasks, RecallMethodsHoldTheirBudget) {
  RecallOptions options = small_recall();
  options.setup.kv.cache.recent = 0;
  options.budget_ratio = 0.2;
  options.block = 512;
  options.episodes = 3;
  Json methods = run_recall(options).at("methods");
  const double whole = methods.at("full").at("bytes_f16");
  methods.erase("full");
  for (const auto& [name, method] : methods.items()) {
    // The budget, the question, and pages part full. `bytes_f16` of `rag` is that of the text that was retrieved.
    const double share = method.at("bytes").get<double>() / whole;
    EXPECT_LT(share, name == "epicache" ? 0.75 : 0.28) << name;
    EXPECT_GT(method.at("n").get<int>(), 0);
  }
  options.methods = {"hearsay"};
  try {
    run_recall(options);
    FAIL() << "a method that isn't there was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("hearsay"), std::string::npos);
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  }
  options.methods = {"snapkv"};
  options.budget_ratio = 0;
  EXPECT_THROW(run_recall(options), Error) << "no budget";
  options.budget = 10;
  EXPECT_THROW(run_recall(options), Error) << "a budget below the sinks";
  options.setup = setup("native", 6000);
  options.budget = 1000;
  EXPECT_THROW(run_recall(options), Error) << "llama.cpp's own cache drops no tokens";
}

TEST_F(Tasks, GenerationAgreesWithItself) {
  GenerationOptions options;
  options.setup = setup("f16", 1024);
  options.count = 2;
  options.prompt_tokens = 400;
  options.tokens = 24;
  const Json same = run_generation_agreement(options);
  EXPECT_EQ(same.at("agreement"), 1.0);
  EXPECT_EQ(same.at("forced_agreement"), 1.0);
  EXPECT_EQ(same.at("identical"), 1.0);
  EXPECT_EQ(same.at("prompts").size(), 2u);
  options.setup = setup("turbo2", 1024);
  const Json other = run_generation_agreement(options);
  EXPECT_LE(other.at("first_difference"), 24.0);
  EXPECT_LT(other.at("bits_per_value"), same.at("bits_per_value"));
  for (const Json& prompt : other.at("prompts")) {
    EXPECT_GE(prompt.at("agreement").get<double>() * prompt.at("tokens").get<double>(),
              prompt.at("first_difference").get<double>() - 1e-9);
  }
}

TEST_F(Tasks, PerplexityStepByStepIsPerplexity) {
  PerplexityOptions options;
  options.setup = setup("turbo3", 512);
  options.text = write_document(4, 12).text;
  options.chunks = 1;
  options.base = SourceSpec::parse("f16", CacheOptions());
  const Json chunked = run_perplexity(options);
  options.step = true;
  const Json stepped = run_perplexity(options);
  EXPECT_EQ(chunked.at("tokens"), 255);
  EXPECT_GT(chunked.at("ppl"), 1.0);
  EXPECT_NEAR(std::log(chunked.at("ppl").get<double>() / stepped.at("ppl").get<double>()), 0, 0.01);
  EXPECT_NEAR(std::log(chunked.at("ppl").get<double>() / chunked.at("ppl_base").get<double>()),
              chunked.at("ln_ppl_ratio").at("mean"), 1e-9);
  options.base.reset();
  options.step = false;
  const Json alone = run_perplexity(options);
  EXPECT_NEAR(alone.at("ppl"), chunked.at("ppl"), 1e-6 * chunked.at("ppl").get<double>());
  EXPECT_FALSE(alone.contains("ppl_base"));
}

}  // namespace
}  // namespace kvasir
