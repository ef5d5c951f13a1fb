// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir bench end-to-end over models and lengths: from outside on two tiny models, and its summary on made figures.
#include <nlohmann/json.hpp>

#include "cli/end_to_end_run.h"
#include "tests/cli/tiny_model.h"

namespace kvasir::cli::test {
namespace {

EndToEndFigures native(const std::string& name, double decode_tps) {
  EndToEndFigures figures;
  figures.name = name;
  figures.native = true;
  figures.decode_tps = decode_tps;
  return figures;
}

TEST(EndToEndSummary, ComparesWithTheFastestNativeCache) {
  EndToEndFigures ours;
  ours.name = "auto";
  ours.decode_tps = 30;
  ours.decode_ratio = {{"f16", {2.9, 3, 3.1}}, {"q8_0", {1.4, 1.5, 1.6}}};
  ours.prefill_ratio = {{"f16", 1.25}, {"q8_0", 0.75}};
  EndToEndRun run;
  run.model = "m";
  run.context = 512;
  run.figures = {ours, native("f16", 10), native("q8_0", 20)};
  EndToEndRun alone = run;
  alone.figures.resize(1);
  const std::vector<EndToEndLine> lines = end_to_end_summary({run, alone});
  ASSERT_EQ(lines.size(), 1u) << "a run without native caches has nothing to compare with";
  EXPECT_EQ(lines[0].fastest, "q8_0");
  EXPECT_EQ(lines[0].context, 512);
  EXPECT_EQ(lines[0].decode_ratio, 1.5);
  EXPECT_EQ(lines[0].prefill_ratio, 0.75);
  EXPECT_EQ(summary_json(lines)[0].at("fastest_native_decode_tps"), 20);
}

class EndToEndCommand : public TinyModelTest {
 protected:
  EndToEndCommand() {
    kvasir::test::write_tiny_gguf({.context = 256}, file("short.gguf"));
    kvasir::test::write_tiny_gguf({.context = 4096, .seed = 2}, file("long.gguf"));
  }
  std::vector<std::string> bench(const std::string& models, const std::string& contexts,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"bench", "end-to-end", "-m", models, "-c", contexts,   "-n",
                                          "8",     "-t",         "1",  "--kv", "q8"};
    if (std::ranges::find(more, "--native") == more.end()) arguments.insert(arguments.end(), {"--native", "f16,q8_0"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void expect_refused(const std::string& models, const std::string& contexts, const std::string& what, int status = 2,
                      const std::vector<std::string>& more = {}) const {
    const Outcome outcome = run_program(KVASIR_PROGRAM, bench(models, contexts, more));
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(what), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  std::string both() const { return file("short.gguf") + "," + file("long.gguf"); }
};

TEST_F(EndToEndCommand, OneRunIsOneObject) {
  const Json run = Json::parse(expect_success(bench(file("long.gguf"), "200", {"--json"})));
  EXPECT_EQ(run.at("context"), 200);
  EXPECT_EQ(run.at("codec"), "q8");
  EXPECT_EQ(run.at("decode_tokens"), 8);
  EXPECT_GT(run.at("decode_ratio").at("f16"), 0.0);
  EXPECT_GT(run.at("native").at("q8_0").at("decode_tps"), 0.0);
  EXPECT_FALSE(run.contains("runs"));
}

TEST_F(EndToEndCommand, ManyModelsAndLengths) {
  const Json all = Json::parse(expect_success(bench(both(), "100,200,300", {"--json"})));
  ASSERT_EQ(all.at("runs").size(), 5u) << "300 is more than the first was trained for";
  const int contexts[] = {100, 200, 100, 200, 300};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(all.at("runs")[i].at("context"), contexts[i]);
    EXPECT_EQ(all.at("runs")[i].at("model"), file(i < 2 ? "short.gguf" : "long.gguf"));
    EXPECT_EQ(all.at("summary")[i].at("context"), contexts[i]);
    const std::string fastest = all.at("summary")[i].at("fastest_native");
    const Json& native = all.at("runs")[i].at("native");
    EXPECT_EQ(native.at(fastest).at("decode_tps"), std::max(native.at("f16").at("decode_tps").get<double>(),
                                                            native.at("q8_0").at("decode_tps").get<double>()));
  }
}

TEST_F(EndToEndCommand, PrintsEachRunAndTheSummary) {
  const Outcome outcome = run_program(KVASIR_PROGRAM, bench(both(), "100,300", {}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("300 left out"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("92 tokens of prompt"), std::string::npos);
  EXPECT_NE(outcome.out.find("292 tokens of prompt"), std::string::npos);
  EXPECT_NE(outcome.out.find("Against the native cache that generates fastest"), std::string::npos);
}

TEST_F(EndToEndCommand, WrongInputIsRefusedBeforeAnythingRuns) {
  expect_refused(file("long.gguf"), "100,8", "-c more than -n");
  expect_refused(file("long.gguf"), "100,-5", "-c");
  expect_refused(file("long.gguf") + "," + file("none.gguf"), "100", "none.gguf", 1);
  expect_refused("", "100", "no model");
  expect_refused(file("short.gguf"), "300,400", "choose smaller ones");
  expect_refused(file("long.gguf"), "", "-c");
  expect_refused(file("long.gguf"), "100", "'f16' twice", 2, {"--native", "f16,q8_0,f16"});
  expect_refused(file("long.gguf"), "100", "none alone", 2, {"--native", "none,f16"});
}

TEST_F(EndToEndCommand, WithoutNativeCaches) {
  const Json run = Json::parse(expect_success(bench(file("long.gguf"), "100", {"--json", "--native", "none"})));
  EXPECT_EQ(run.at("native"), Json::object());
  EXPECT_GT(run.at("decode_tps"), 0.0);
  EXPECT_FALSE(run.contains("decode_ratio"));
}

TEST_F(EndToEndCommand, WhatWasMeasuredOutlivesALaterFailure) {
  kvasir::test::write_tiny_gguf({.context = 8, .seed = 3}, file("tiny.gguf"));
  const Outcome outcome = run_program(KVASIR_PROGRAM, bench(both() + "," + file("tiny.gguf"), "0", {"--json"}));
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_NE(outcome.last_error_line().find("leaves none of them"), std::string::npos) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("runs").size(), 2u);
}

}  // namespace
}  // namespace kvasir::cli::test
