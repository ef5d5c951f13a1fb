// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite_tasks.h"

#include <algorithm>
#include <numeric>

#include "eval/generation_agreement.h"
#include "eval/needle_task.h"
#include "eval/recall_task.h"
#include "eval/ruler_task.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr double kDecodeCost = 20;  // one generated token costs about what reading these many does
constexpr int kAgreementPrompt = 1024, kAgreementTokens = 256;
const std::vector<double> kDepths = {10, 30, 50, 70, 90};

int64_t shortest(const SuiteOptions& options) {
  return *std::ranges::min_element(options.contexts);
}

double needle_reading(const SuiteOptions& options) {
  const double tokens = std::accumulate(options.contexts.begin(), options.contexts.end(), 0.0);
  const double answers = kDecodeCost * 12 * double(kDepths.size() * options.contexts.size());
  return options.samples * (tokens + answers);
}

NeedleOptions needle_options(const SuiteOptions& options, EvalSetup setup) {
  NeedleOptions task;
  task.setup = std::move(setup);
  task.lengths = options.contexts;
  task.depths = kDepths;
  task.mode = NeedleMode::multi;
  task.repeats = options.samples;
  task.text = options.text;
  task.seed = options.seed;
  return task;
}

RulerOptions ruler_options(const SuiteOptions& options, EvalSetup setup) {
  RulerOptions task;
  task.setup = std::move(setup);
  task.lengths = {shortest(options)};
  task.samples = options.samples;
  task.text = options.text;
  task.seed = options.seed;
  return task;
}

RecallOptions recall_options(const SuiteOptions& options, EvalSetup setup) {
  RecallOptions task;
  task.setup = std::move(setup);
  task.length = shortest(options);
  task.chats = options.samples;
  task.seed = options.seed;
  return task;
}

GenerationOptions agreement_options(const SuiteOptions& options, EvalSetup setup) {
  GenerationOptions task;
  task.setup = std::move(setup);
  task.base = SourceSpec::parse("f16", CacheOptions());
  task.count = options.samples;
  task.prompt_tokens = kAgreementPrompt;
  task.tokens = kAgreementTokens;
  task.seed = options.seed;
  return task;
}

}  // namespace

std::vector<std::string> suite_task_names() {
  return {"kld", "needle", "ruler", "recall", "generate"};
}

SuiteJson task_parameters(const std::string& task, const SuiteOptions& options) {
  SuiteJson parameters = {{"samples", options.samples}, {"seed", options.seed}};
  if (task == "needle") {
    parameters["lengths"] = options.contexts;
    parameters["depths"] = kDepths;
    parameters["mode"] = "multi";
  } else if (task == "generate") {
    parameters["prompt_tokens"] = kAgreementPrompt;
    parameters["tokens"] = kAgreementTokens;
  } else {
    parameters["length"] = shortest(options);
  }
  return parameters;
}

double task_reading(const std::string& task, const SuiteOptions& options) {
  const double length = double(shortest(options));
  if (task == "needle") return needle_reading(options);
  if (task == "ruler") return double(ruler_task_names().size()) * options.samples * (length + 60 * kDecodeCost);
  if (task == "recall") return options.samples * (length + 12 * 16 * kDecodeCost);
  return options.samples * 2 * (kAgreementPrompt + kAgreementTokens * kDecodeCost);
}

SuiteJson run_suite_task(const std::string& task, const SuiteOptions& options, EvalSetup setup) {
  if (task == "needle") return run_needle(needle_options(options, std::move(setup)));
  if (task == "ruler") return run_ruler(ruler_options(options, std::move(setup)));
  if (task == "recall") return run_recall(recall_options(options, std::move(setup)));
  if (task == "generate") return run_generation_agreement(agreement_options(options, std::move(setup)));
  throw Error(ErrorCode::invalid_argument, "no suite task '" + task + "'");
}

}  // namespace kvasir
