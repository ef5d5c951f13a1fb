// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The JSON contract and the refusals of the tasks of `kvasir eval`, on a tiny model.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;
using kvasir::test::TemporaryFolder;

class EvalTasks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    kvasir::test::write_tiny_gguf({}, folder_->file("tiny.gguf"));
    std::ofstream text(folder_->file("text.txt"));
    for (int i = 0; i < 200; ++i) text << "Line " << i * i % 977 << " is here.\n";
  }
  static void TearDownTestSuite() { delete folder_; }

  static Outcome eval(Arguments arguments) {
    arguments.insert(arguments.begin(), "eval");
    for (std::string& argument : arguments) {
      if (argument == "TINY") argument = folder_->file("tiny.gguf");
      if (argument == "TEXT") argument = folder_->file("text.txt");
    }
    return run_program(KVASIR_PROGRAM, arguments);
  }
  static Json json(Arguments arguments) {
    arguments.push_back("--json");
    const Outcome outcome = eval(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json result = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(result.is_object()) << outcome.out;
    return result;
  }
  static void expect_refused(const Arguments& arguments, const std::string& word) {
    const Outcome outcome = eval(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.last_error_line().find(word), std::string::npos) << outcome.err;
  }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

void expect_frame(const Json& result) {
  for (const char* key : {"score", "n", "cells", "bits_per_value", "bytes", "bytes_f16", "effective", "kv", "model",
                          "seconds", "peak_rss", "nonfinite"})
    EXPECT_TRUE(result.contains(key)) << key;
}

TEST_F(EvalTasks, Ppl) {
  const Json result = json({"ppl", "-m", "TINY", "-f", "TEXT", "-c", "256", "--chunks", "2", "--kv", "turbo3", "--step",
                            "--sink", "16", "--recent", "64"});
  EXPECT_EQ(result.at("tokens"), 2 * 127);
  EXPECT_EQ(result.at("step"), true);
  EXPECT_GT(result.at("ppl_base"), 1.0);
  EXPECT_GT(result.at("ln_ppl_ratio").at("se"), 0.0);
  EXPECT_EQ(result.at("effective").at("codec_k"), "turbo3");
  EXPECT_NEAR(
      json({"ppl", "-m", "TINY", "-f", "TEXT", "-c", "256", "--chunks", "1", "--kv", "native:q8_0", "--base", "none"})
          .at("bits_per_value"),
      8.5, 1e-9);
}

TEST_F(EvalTasks, Needle) {
  const Json result = json({"needle", "-m", "TINY", "--lengths", "1024,1536", "--depths", "20,80", "--mode", "multi",
                            "-n", "4", "--kv", "q8", "--text", "TEXT"});
  expect_frame(result);
  EXPECT_EQ(result.at("n"), 4);
  EXPECT_EQ(result.at("cells").size(), 4u);
  EXPECT_EQ(result.at("effective").at("context"), 1536);  // as long as the longest length
  EXPECT_EQ(eval({"needle", "-m", "TINY", "-c", "1024", "--depths", "50", "-n", "2"}).status, 0);
}

TEST_F(EvalTasks, Ruler) {
  const Json oracle = json({"ruler", "--oracle", "--samples", "2"});
  EXPECT_EQ(oracle.at("score"), 1.0);
  EXPECT_EQ(oracle.at("n"), 22);
  EXPECT_LE(json({"ruler", "--oracle", "--no-context", "--samples", "2"}).at("score"), 0.01);
  const Json counted = json({"ruler", "--oracle", "-m", "TINY", "-c", "4096", "--samples", "1", "--tasks", "vt,fwe"});
  EXPECT_EQ(counted.at("score"), 1.0);
  const Json result = json({"ruler", "-m", "TINY", "-c", "1024", "--samples", "1", "--tasks", "niah_single_1"});
  expect_frame(result);
  EXPECT_EQ(result.at("tasks").at("niah_single_1").at("n"), 1);
}

TEST_F(EvalTasks, Recall) {
  const Json result = json({"recall", "-m", "TINY", "--synthetic", "-c", "8000", "--facts", "3", "--updates", "1",
                            "--topics", "2", "-n", "2", "--kv", "turbo4"});
  expect_frame(result);
  EXPECT_EQ(result.at("methods").at("full").at("bytes"), result.at("bytes"));
}

TEST_F(EvalTasks, Generate) {
  const Json result = json({"generate", "-m", "TINY", "--prompts", "1", "--prompt-tokens", "400", "-n", "8", "--kv",
                            "turbo4", "--sink", "16", "--recent", "64"});
  for (const char* key : {"agreement", "first_difference", "forced_agreement", "n", "bits_per_value", "base"})
    EXPECT_TRUE(result.contains(key)) << key;
  EXPECT_EQ(json({"generate", "-m", "TINY", "-p", "hello", "-p", "you", "-n", "4", "--kv", "f16"}).at("agreement"),
            1.0);
}

TEST_F(EvalTasks, Refusals) {
  expect_refused({"ppl", "-m", "TINY"}, "-f");
  expect_refused({"needle", "-m", "TINY", "--mode", "double"}, "--mode");
  expect_refused({"needle", "-m", "TINY", "--depths", "120"}, "--depths");
  expect_refused({"needle", "-m", "TINY", "-c", "100"}, "too few");
  expect_refused({"ruler", "-m", "TINY", "--tasks", "qa_1"}, "niah_single_1");
  expect_refused({"ruler", "--samples", "1"}, "-m");
  expect_refused({"ruler", "-m", "TINY", "-c", "1024", "--lengths", "2048"}, "-c");
  expect_refused({"recall", "-m", "TINY"}, "--synthetic");
  expect_refused({"recall", "-m", "TINY", "--synthetic", "-f", "chat.json"}, "--synthetic");
  expect_refused({"recall", "-m", "TINY", "--synthetic", "--method", "full,hearsay"}, "hearsay");
  expect_refused({"recall", "-m", "TINY", "--synthetic", "--method", "full,snapkv"}, "--budget");
  expect_refused({"recall", "-m", "TINY", "--synthetic", "--method", "snapkv", "--budget", "10", "-c", "8000",
                  "--topics", "2", "--facts", "2", "--updates", "0", "--alpha", "0"},
                 "--sink");
  expect_refused({"recall", "-m", "TINY", "--synthetic", "--facts", "1000"}, "1000");
  expect_refused({"generate", "-m", "TINY", "-n", "0"}, "-n");
  expect_refused({"needle", "-m", "TINY", "--kv", "native:q9_9", "-c", "1024"}, "q9_9");
  expect_refused({"needle", "-m", "TINY", "--kv", "nonesuch"}, "nonesuch");
}

}  // namespace
}  // namespace kvasir::cli::test
