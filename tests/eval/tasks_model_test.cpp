// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The tasks on SmolLM2 (F32 weights): a model that can read finds what is hidden, and nothing where there is no text.
#include <gtest/gtest.h>

#include <string>

#include "eval/needle_task.h"
#include "eval/recall_task.h"
#include "eval/ruler_task.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

EvalSetup smollm2(const std::string& kv) {
  static const std::shared_ptr<Model> model = Model::load(resolve_model("smollm2-f32"));
  CacheOptions windows;
  windows.recent = 64;
  EvalSetup setup;
  setup.model = model;
  setup.kv = SourceSpec::parse(kv, windows);
  setup.context = 1024;
  setup.threads = 2;
  return setup;
}

TEST(TasksOnSmolLM2, FindsNeedlesWithEveryTokenIn16Bits) {
  NeedleOptions options;
  options.setup = smollm2("f16");
  options.lengths = {1024};
  options.depths = {15, 45, 75};
  const Json single = run_needle(options);
  EXPECT_EQ(single.at("score"), 1.0);
  EXPECT_GT(single.at("answer_logprob"), -0.3);
  options.mode = NeedleMode::multi;
  EXPECT_GE(run_needle(options).at("score"), 0.6);
}

TEST(TasksOnSmolLM2, ANeedleThatIsntThereIsntGuessed) {
  RulerOptions options;
  options.setup = smollm2("f16");
  options.lengths = {1024};
  options.tasks = {"niah_single_1", "niah_single_2"};
  options.samples = 1;
  const Json with = run_ruler(options);
  options.no_context = true;
  const Json without = run_ruler(options);
  EXPECT_EQ(with.at("score"), 1.0);
  EXPECT_EQ(without.at("score"), 0.0);
  EXPECT_GT(with.at("answer_logprob").get<double>(), without.at("answer_logprob").get<double>() + 1);
}

// What a codec loses is in the likelihood of the right answer even where the answer stays right.
TEST(TasksOnSmolLM2, FewerBitsMakeTheRightAnswerLessLikely) {
  RecallOptions options;
  options.length = 1024;
  options.answer_tokens = 8;
  options.setup = smollm2("f16");
  const double full = run_recall(options).at("answer_logprob");
  options.setup = smollm2("kivi2");
  const Json coarse = run_recall(options);
  EXPECT_LT(coarse.at("answer_logprob"), full);
  EXPECT_LT(coarse.at("bits_per_value"), 10.0);
}

}  // namespace
}  // namespace kvasir
