// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/ruler_sample.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "eval/ruler_task.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class RulerSample : public testing::Test {
 protected:
  TaskSample make(const RulerTask& task, int64_t units, uint64_t seed = 7, int64_t length = 4096) const {
    return task.make(task, {seed, length, &prose_, &noise_}, units);
  }

 private:
  Filler prose_ = Filler::document(3), noise_ = Filler::noise();
};

TEST_F(RulerSample, ThereAreElevenTasks) {
  EXPECT_EQ(ruler_tasks().size(), 11u);
  EXPECT_EQ(ruler_task_names().front(), "niah_single_1");
  EXPECT_EQ(ruler_task_names().back(), "fwe");
  EXPECT_THROW(ruler_task("qa_1"), Error);
}

TEST_F(RulerSample, OracleReadsEveryAnswerAndNothingWithoutTheContext) {
  for (const RulerTask& task : ruler_tasks()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      for (const int64_t length : {1024, 8192}) {
        TaskSample sample = make(task, task.least + int64_t(10 * seed), seed, length);
        EXPECT_EQ(answer_score(task.solve(sample), sample.answers), 1.0) << task.name << " " << seed;
        // The answer isn't given away behind the context.
        EXPECT_EQ(answer_score(sample.question + sample.answer_prefix, sample.answers), 0.0) << task.name;
        EXPECT_EQ(answer_score(sample.context, sample.answers), 1.0) << task.name;
        sample.context.clear();
        EXPECT_EQ(answer_score(task.solve(sample), sample.answers), 0.0) << task.name;
      }
    }
  }
}

TEST_F(RulerSample, NumbersOfAnswers) {
  const std::map<std::string, size_t> wanted = {
      {"niah_multivalue", 4}, {"niah_multiquery", 4}, {"vt", 5}, {"cwe", 10}, {"fwe", 3}};
  for (const RulerTask& task : ruler_tasks()) {
    const auto it = wanted.find(task.name);
    const TaskSample sample = make(task, 60);
    const std::set<std::string> different(sample.answers.begin(), sample.answers.end());
    EXPECT_EQ(different.size(), it == wanted.end() ? 1u : it->second) << task.name;
  }
}

TEST_F(RulerSample, DependsOnTheSeedAndGrowsWithTheUnits) {
  for (const RulerTask& task : ruler_tasks()) {
    EXPECT_EQ(make(task, 50).context, make(task, 50).context) << task.name;
    EXPECT_NE(make(task, 50, 7).context, make(task, 50, 8).context) << task.name;
    EXPECT_EQ(make(task, 50).answers, make(task, 90).answers) << task.name;  // only the haystack grows
    size_t size = 0;
    for (int64_t units = task.least; units < 80; units += 7) {
      const size_t next = make(task, units).context.size();
      EXPECT_GT(next, size) << task.name << " at " << units;
      size = next;
    }
  }
}

TEST_F(RulerSample, NeedlesAreCounted) {
  const std::map<std::string, size_t> wanted = {
      {"niah_single_1", 1},    {"niah_single_2", 1},    {"niah_single_3", 1},   {"niah_multikey_1", 4},
      {"niah_multikey_2", 31}, {"niah_multikey_3", 31}, {"niah_multivalue", 4}, {"niah_multiquery", 4}};
  for (const auto& [name, count] : wanted)
    EXPECT_EQ(occurrences(make(ruler_task(name), 30).context, "One of the special magic "), count) << name;
}

// The chain is told in order, so each assignment names a variable that is known already.
TEST_F(RulerSample, ChainsAreInOrder) {
  const TaskSample sample = make(ruler_task("vt"), 40);
  size_t at = 0;
  for (const std::string& name : sample.answers) {
    const size_t next = sample.context.rfind("VAR " + name + " = ");
    ASSERT_NE(next, std::string::npos);
    EXPECT_GT(next, at);
    at = next;
  }
  EXPECT_EQ(occurrences(sample.context, " = "), 10u);  // five of the worked example
}

TEST_F(RulerSample, CommonWordsComeTenTimesAsOften) {
  const TaskSample sample = make(ruler_task("cwe"), 50);
  const std::string list = sample.context.substr(sample.context.rfind("List:"));
  std::map<std::string, int> counts;
  std::istringstream text(list);
  for (std::string word; text >> word;)
    if (std::isalpha(static_cast<unsigned char>(word[0])) != 0 && word != "List:") ++counts[word];
  EXPECT_EQ(counts.size(), 60u);
  for (const std::string& word : sample.answers) {
    EXPECT_EQ(counts[word], 30);
    counts.erase(word);
  }
  for (const auto& [word, count] : counts) EXPECT_EQ(count, 3) << word;
}

TEST_F(RulerSample, CodeWordsFollowTheZetaDistribution) {
  const TaskSample sample = make(ruler_task("fwe"), 1000);
  const double dots = double(occurrences(sample.context, " ..."));
  EXPECT_NEAR(dots / 1000, 0.608, 0.002);  // 1 / zeta(2)
  for (int rank = 2; rank <= 4; ++rank) {
    const double count = double(occurrences(sample.context, " " + sample.answers[size_t(rank) - 2]));
    EXPECT_NEAR(count, dots / (rank * rank), 1.5) << rank;
  }
}

TEST(RulerTask, OracleScoresFullAndWithoutContextNothing) {
  RulerOptions options;
  options.setup.context = 8192;
  options.lengths = {1024, 8192};
  options.samples = 3;
  options.oracle = true;
  const nlohmann::json full = run_ruler(options);
  EXPECT_EQ(full.at("score"), 1.0);
  EXPECT_EQ(full.at("n"), 66);
  EXPECT_EQ(full.at("cells").size(), 22u);
  EXPECT_EQ(full.at("tasks").size(), 11u);
  for (const nlohmann::json& cell : full.at("cells")) {
    EXPECT_LE(cell.at("tokens"), cell.at("length"));
    EXPECT_GT(cell.at("tokens").get<double>(), cell.at("length").get<double>() - 64) << cell.dump();
  }
  options.no_context = true;
  EXPECT_LE(run_ruler(options).at("score"), 0.01);
}

TEST(RulerTask, RefusesWhatCantBe) {
  RulerOptions options;
  EXPECT_THROW(run_ruler(options), Error);  // neither model nor oracle
  options.oracle = true;
  options.tasks = {"qa_2"};
  EXPECT_THROW(run_ruler(options), Error);
  options.tasks = {"cwe"};
  options.lengths = {200};
  EXPECT_THROW(run_ruler(options), Error);  // ten words don't fit
  options.lengths = {options.setup.context + 1};
  EXPECT_THROW(run_ruler(options), Error);
}

}  // namespace
}  // namespace kvasir
