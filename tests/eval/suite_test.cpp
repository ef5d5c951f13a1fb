// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "eval/divergence_summary.h"
#include "eval/document.h"
#include "eval/kl_divergence.h"
#include "eval/lockstep.h"
#include "eval/report.h"
#include "eval/suite_clock.h"
#include "eval/suite_store.h"
#include "eval/text_chunks.h"
#include "kvasir/error.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir {
namespace {

class SuiteTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new test::TemporaryFolder();
    test::write_tiny_gguf({}, models_->file("tiny.gguf"));
    test::TinyModel narrow;
    narrow.seed = 2;
    test::write_tiny_gguf(narrow, models_->file("other.gguf"));
  }
  static void TearDownTestSuite() { delete models_; }
  static std::shared_ptr<Model> load(const std::string& name) { return Model::load(models_->file(name + ".gguf")); }

  SuiteOptions options(const std::string& methods) {
    CacheOptions windows;
    windows.sink = 4;
    windows.recent = 8;
    SuiteOptions options;
    options.models = {"tiny"};
    options.methods = suite_methods(methods, windows);
    options.tasks = {"kld"};
    options.contexts = {192, 256};
    options.windows = 2;
    options.text = write_document(3, 8).text;
    options.text_name = "a text";
    options.threads = 1;
    options.folder = folder_.file("suite");
    options.program = "test 1";
    options.load = [this](const std::string& name) {
      ++loads_;
      return load(name);
    };
    options.note = [this](const std::string& line) {
      if (line.find("window") != std::string::npos) ++windows_run_;
    };
    return options;
  }

  static std::map<std::string, std::string> statuses(const SuiteJson& index) {
    std::map<std::string, std::string> found;
    for (const SuiteJson& cell : index.at("cells")) found[cell.at("id")] = cell.at("status");
    return found;
  }
  SuiteJson cell(const std::string& id) {
    std::ifstream file(folder_.file("suite") + "/cells/" + id + ".json");
    return SuiteJson::parse(file);
  }

  static inline test::TemporaryFolder* models_ = nullptr;
  test::TemporaryFolder folder_;
  int loads_ = 0, windows_run_ = 0;
};

TEST_F(SuiteTest, LockstepGivesWhatOnePairGives) {
  const auto model = load("tiny");
  const auto window = cut_chunks(*model, write_document(3, 4).text, 256, 1)[0];
  const auto source = [&](const char* name) { return make_source(model, SourceSpec::parse(name, {}), 256, 50, 1); };
  const auto base = source("native"), turbo = source("turbo2"), q4 = source("native:q4_0");
  std::vector<LockstepRun> runs(2);
  runs[0].source = turbo.get();
  runs[1].source = q4.get();
  score_in_lockstep(*base, runs, window, model->vocab_size(), 50, 1, {});
  for (const LockstepRun& run : runs) {
    std::vector<LogitDivergence> alone;
    score_chunk(*base, *run.source, window, model->vocab_size(), 50, 1, {}, alone);
    ASSERT_EQ(run.positions.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_DOUBLE_EQ(run.positions[i].kld, alone[i].kld);
  }
}

TEST_F(SuiteTest, MeasuresOnceAndResumes) {
  const SuiteJson first = run_suite(options("turbo4,turbo2,native:q4_0"));
  for (const auto& [id, status] : statuses(first)) EXPECT_EQ(status, "done") << id;
  EXPECT_EQ(statuses(first).size(), 8u);  // f16 and three more, two lengths
  EXPECT_EQ(windows_run_, 4);
  const SuiteJson turbo2 = cell("tiny_kld-256_turbo2");
  EXPECT_EQ(turbo2["result"]["windows"], 2);
  EXPECT_EQ(turbo2["result"]["tokens"], 2 * 127);
  EXPECT_GT(turbo2["result"]["kld"]["mean"], cell("tiny_kld-256_turbo4")["result"]["kld"]["mean"]);
  EXPECT_LT(cell("tiny_kld-256_f16")["result"]["kld"]["mean"], 1e-5);

  run_suite(options("turbo4,turbo2,native:q4_0"));
  EXPECT_EQ(windows_run_, 4) << "nothing is measured twice";
  EXPECT_EQ(cell("tiny_kld-256_turbo2")["result"], turbo2["result"]);

  const SuiteJson more = run_suite(options("turbo4,turbo3"));
  EXPECT_EQ(windows_run_, 8) << "the new method alone";
  EXPECT_EQ(statuses(more).size(), 10u) << "what was measured before stays in the list";
  EXPECT_EQ(statuses(more).at("tiny_kld-192_turbo2"), "done");
}

TEST_F(SuiteTest, AMissingCellFileIsMadeAgainFromItsWindows) {
  run_suite(options("turbo4"));
  const SuiteJson before = cell("tiny_kld-192_turbo4");
  std::filesystem::remove(folder_.file("suite") + "/cells/tiny_kld-192_turbo4.json");
  run_suite(options("turbo4"));
  EXPECT_EQ(windows_run_, 4);
  EXPECT_EQ(cell("tiny_kld-192_turbo4"), before);
}

TEST_F(SuiteTest, OtherParametersAreMeasuredAgain) {
  SuiteOptions changed = options("turbo4");
  run_suite(changed);
  const int before = windows_run_;
  changed.text += "One more line.";
  run_suite(changed);
  EXPECT_EQ(windows_run_, 2 * before);
  changed.program = "test 2";
  run_suite(changed);
  EXPECT_EQ(windows_run_, 3 * before);
}

TEST_F(SuiteTest, AStoppedRunForgetsNothing) {
  SuiteOptions first = options("turbo4");
  run_suite(first);
  SuiteOptions stopped = options("turbo4");
  stopped.models = {"crash", "tiny"};
  stopped.load = [](const std::string& name) -> std::shared_ptr<Model> {
    if (name == "crash") throw std::runtime_error("the power went out");
    return load(name);
  };
  EXPECT_THROW(run_suite(stopped), std::runtime_error);
  const SuiteJson index = SuiteStore(stopped.folder).index();
  EXPECT_EQ(statuses(index).at("tiny_kld-192_turbo4"), "done");
  EXPECT_EQ(statuses(index).at("crash_kld-192_turbo4"), "not_run");

  // Of another text nothing stands.
  stopped.text += "One more line.";
  EXPECT_THROW(run_suite(stopped), std::runtime_error);
  EXPECT_EQ(statuses(SuiteStore(stopped.folder).index()).at("tiny_kld-192_turbo4"), "not_run");
}

TEST_F(SuiteTest, WhatDoesntFitIsNotRun) {
  SuiteOptions hurried = options("turbo4");
  hurried.budget_seconds = 1e-9;
  for (const auto& [id, status] : statuses(run_suite(hurried))) EXPECT_EQ(status, "not_run") << id;
  EXPECT_EQ(windows_run_, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("suite") + "/cells/tiny_kld-192_turbo4.json"));
}

TEST_F(SuiteTest, AModelThatIsntThereFailsAlone) {
  SuiteOptions two = options("turbo4");
  two.models = {"nowhere", "tiny"};
  const auto found = statuses(run_suite(two));
  EXPECT_EQ(found.at("nowhere_kld-192_turbo4"), "failed");
  EXPECT_EQ(found.at("tiny_kld-192_turbo4"), "done");
}

TEST_F(SuiteTest, TextShorterThanAWindowFails) {
  SuiteOptions short_text = options("turbo4");
  short_text.text = "too short";
  for (const auto& [id, status] : statuses(run_suite(short_text))) EXPECT_EQ(status, "failed") << id;
}

TEST_F(SuiteTest, WrongArguments) {
  SuiteOptions wrong = options("turbo4");
  wrong.tasks = {"kld", "nonsense"};
  EXPECT_THROW(run_suite(wrong), Error);
  wrong = options("turbo4");
  wrong.models.clear();
  EXPECT_THROW(run_suite(wrong), Error);
  wrong = options("turbo4");
  wrong.models = {"tiny", "./tiny"};
  EXPECT_THROW(run_suite(wrong), Error) << "their cells would share files";
}

TEST_F(SuiteTest, ReportsWhatIsThereAndWhatIsnt) {
  SuiteOptions two = options("turbo4,turbo2,kivi-paper,llama-q4_0");
  two.models = {"tiny", "nowhere"};
  two.load = [](const std::string& name) { return load(name); };
  run_suite(two);
  const ReportDocument document = build_report(two.folder);
  const std::string html = report_html(document), markdown = report_markdown(document);
  for (const std::string& page : {html, markdown})
    for (const char* part : {"turbo4", "kivi-paper", "LongBench average", "192 tokens", "nowhere", "failed", "±"})
      EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_THROW(build_report(folder_.file("elsewhere")), Error);
}

TEST(SuiteStore, ReplacesFilesWholeAndSurvivesDamage) {
  test::TemporaryFolder folder;
  const SuiteStore store(folder.file("s"));
  const SuiteStore::Json parameters = {{"a", 1}};
  store.write_cell("x", {{"parameters", parameters}, {"result", 5}});
  EXPECT_EQ((*store.cell("x", parameters))["result"], 5);
  EXPECT_FALSE(store.cell("x", {{"a", 2}}));
  EXPECT_FALSE(store.cell("y", parameters));
  std::ofstream(folder.file("s") + "/cells/x.json") << "{\"parameters\": {\"a\"";
  EXPECT_FALSE(store.cell("x", parameters)) << "a file cut short is no result";
  EXPECT_EQ(file_name_of("native:q8_0/q4_0"), "native-q8_0+q4_0");
  EXPECT_NE(content_hash("a"), content_hash("b"));
}

TEST(SuiteClock, EstimatesFromTheSameModelOrByTheSizeOfAnother) {
  SuiteClock clock(0);
  EXPECT_EQ(clock.reading("a", 100, 1000), 0);
  clock.learn("a", 100, 1000, 10);
  EXPECT_NEAR(clock.reading("a", 100, 2000), 1.1 * 20, 1e-9);
  EXPECT_NEAR(clock.reading("b", 300, 1000), 1.1 * 30, 1e-9);
  EXPECT_EQ(clock.left(), SuiteClock::kForever);
}

}  // namespace
}  // namespace kvasir
