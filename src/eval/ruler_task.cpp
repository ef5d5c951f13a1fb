// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/ruler_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "eval/cell_scores.h"
#include "eval/ruler_sample.h"
#include "eval/task_prompt.h"
#include "eval/task_words.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

constexpr int64_t kBytesPerToken = 4;  // where the oracle runs without a model

// Tokens that sample and answer take, whichever of the two answers is longer.
int64_t sample_tokens(const RulerOptions& options, const RulerTask& task, const TaskSample& sample) {
  if (!options.setup.model) {
    const size_t bytes = sample.context.size() + sample.question.size() + sample.answer_prefix.size();
    return int64_t(bytes) / kBytesPerToken + task.answer_tokens;
  }
  const TaskPrompt prompt = tokenize_sample(*options.setup.model, sample, options.setup.raw);
  return prompt.tokens() + std::max(int64_t(task.answer_tokens), int64_t(prompt.right_answer.size()));
}

// Every sample has a seed of its own that doesn't depend on which tasks and lengths are asked for beside it.
uint64_t sample_seed(const RulerOptions& options, const RulerTask& task, int64_t length, int index) {
  uint64_t seed = options.seed;
  for (const char c : task.name) seed = seed * 0x100000001b3ull + uint64_t(c);
  SplitMix mix(seed * 0x9e3779b97f4a7c15ull + uint64_t(length) * 1000003ull + uint64_t(index));
  return mix.next();
}

struct SizedSample {
  TaskSample sample;
  int64_t tokens = 0;
};

SizedSample make_sample(const RulerOptions& options, const RulerTask& task, const RulerSource& source) {
  const auto tokens = [&](int64_t units) { return sample_tokens(options, task, task.make(task, source, units)); };
  const auto guess = int64_t(double(source.length) / task.unit_tokens * 0.8);
  const int64_t units = largest_that_fits(task.least, guess, source.length, tokens);
  if (units < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} doesn't fit into {} tokens: its smallest prompt with the answer takes {}; raise "
                            "--lengths or -c, or leave the task out of --tasks",
                            task.name, source.length, tokens(task.least)));
  SizedSample result{task.make(task, source, units), tokens(units)};
  return result;
}

class RulerRun {
 public:
  explicit RulerRun(const RulerOptions& options)
      : options_(options), noise_(Filler::noise()), prose_(prose(options.text, options.seed)) {
    if (!options.oracle) {
      longest_ = *std::max_element(options.lengths.begin(), options.lengths.end());
      reader_ = make_reader(options.setup, longest_);
    }
  }

  // One sample: its score, and the log-likelihood where a model answers.
  void ask(const RulerTask& task, int64_t length, int index, CellScores& cell, int64_t& tokens) {
    const RulerSource source{sample_seed(options_, task, length, index), length, &prose_, &noise_};
    SizedSample sized = make_sample(options_, task, source);
    TaskSample& sample = sized.sample;
    tokens += sized.tokens;
    if (options_.no_context) sample.context.clear();
    if (options_.oracle) return cell.add(answer_score(task.solve(sample), sample.answers));
    const TaskPrompt prompt = tokenize_sample(*options_.setup.model, sample, options_.setup.raw);
    reader_->restart();
    reader_->read(prompt.head);
    const auto enough = [&](std::string_view text) { return answer_score(text, sample.answers) == 1.0; };
    const ReadAnswer answer = reader_->ask({prompt.tail, prompt.right_answer, task.answer_tokens, enough});
    cell.add(answer_score(answer.text, sample.answers), answer);
    if (length == longest_) use_ = reader_->use();
  }

  void write_use_to(Json& out) const {
    if (!reader_) return;
    write_use(use_, out);
    if (reader_->cache()) out["nonfinite"] = reader_->cache()->stats().nonfinite;
  }

 private:
  const RulerOptions& options_;
  Filler noise_, prose_;
  int64_t longest_ = 0;
  std::unique_ptr<ContextReader> reader_;
  CacheUse use_;
};

void check(const RulerOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (options.samples < 1) refuse(fmt::format("--samples takes 1 or more, got {}", options.samples));
  if (options.lengths.empty()) refuse("--lengths names no length");
  if (!options.setup.model && !options.oracle) refuse("RULER without a model can only be solved by --oracle");
  for (const int64_t length : options.lengths)
    if (length < 1 || length > options.setup.context)
      refuse(fmt::format("a length of {} tokens doesn't fit into the context of {}; raise -c", length,
                         options.setup.context));
}

}  // namespace

std::vector<std::string> ruler_task_names() {
  std::vector<std::string> names;
  for (const RulerTask& task : ruler_tasks()) names.push_back(task.name);
  return names;
}

Json run_ruler(const RulerOptions& options) {
  check(options);
  const std::vector<std::string> names = options.tasks.empty() ? ruler_task_names() : options.tasks;
  for (const std::string& name : names) ruler_task(name);  // refuses unknown ones before anything is computed
  RulerRun run(options);
  const int64_t total = int64_t(names.size() * options.lengths.size()) * options.samples;
  int64_t done = 0;
  CellScores all;
  std::map<std::string, CellScores> by_task;
  Json cells = Json::array();
  for (const int64_t length : options.lengths) {
    for (const std::string& name : names) {
      CellScores cell;
      int64_t tokens = 0;
      for (int i = 0; i < options.samples; ++i) {
        run.ask(ruler_task(name), length, i, cell, tokens);
        if (options.setup.progress) options.setup.progress(++done, total);
      }
      Json entry = {{"task", name}, {"length", length}, {"tokens", double(tokens) / options.samples}};
      cell.write(entry);
      cells.push_back(entry);
      if (options.setup.note)
        options.setup.note(
            fmt::format("{:<16} {:>7} tokens  score {:.3f} of {}", name, length, cell.score(), cell.count()));
      by_task[name].add(cell);
      all.add(cell);
    }
  }
  Json result = {{"cells", cells},
                 {"samples", options.samples},
                 {"seed", options.seed},
                 {"oracle", options.oracle},
                 {"no_context", options.no_context},
                 {"filler", options.text.empty() ? "document" : "text"},
                 {"lengths", options.lengths}};
  all.write(result);
  for (const std::string& name : names) by_task[name].write(result["tasks"][name]);
  if (!options.setup.model) result["tokenizer"] = fmt::format("{} bytes a token", kBytesPerToken);
  run.write_use_to(result);
  return result;
}

}  // namespace kvasir
