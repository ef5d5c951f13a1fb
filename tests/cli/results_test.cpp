// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The JSON contract of each command, on a tiny model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/host/tiny_gguf.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;
using kvasir::test::TemporaryFolder;

class Results : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    kvasir::test::write_tiny_gguf({}, folder_->file("tiny.gguf"));
    std::ofstream text(folder_->file("text.txt"));
    for (int i = 0; i < 200; ++i) text << "line " << i * i % 977 << "\n";
  }
  static void TearDownTestSuite() { delete folder_; }

  static Outcome program(std::vector<std::string> arguments) {
    for (std::string& argument : arguments) {
      if (argument == "TINY") argument = folder_->file("tiny.gguf");
      if (argument == "TEXT") argument = folder_->file("text.txt");
    }
    return run_program(KVASIR_PROGRAM, arguments);
  }
  // Exactly one JSON object on stdout.
  static Json json(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = program(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json result = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(result.is_object()) << outcome.out;
    return result;
  }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

TEST_F(Results, Run) {
  const std::vector<std::string> arguments = {"run",    "-m", "TINY",     "-f", "TEXT", "--raw",
                                              "-n",     "12", "--temp",   "0",  "-t",   "1",
                                              "--sink", "16", "--recent", "64", "--kv", "turbo3,turbo2"};
  const Json result = json(arguments);
  EXPECT_GT(result.at("prompt_tokens"), 1000);
  EXPECT_LE(result.at("tokens"), 12);
  EXPECT_GT(result.at("prefill_tps"), 0.0);
  EXPECT_GE(result.at("decode_tps"), 0.0);
  EXPECT_EQ(result.at("reused_tokens"), 0);
  EXPECT_EQ(result.at("nonfinite"), 0);
  EXPECT_GT(result.at("peak_rss"), 1 << 20);
  const Json& kv = result.at("kv");
  EXPECT_EQ(kv.at("codec_k"), "turbo3");
  EXPECT_EQ(kv.at("codec_v"), "turbo2");
  EXPECT_EQ(kv.at("bytes").get<int64_t>(), kv.at("bytes_pages").get<int64_t>() + kv.at("bytes_windows").get<int64_t>());
  EXPECT_NEAR(kv.at("ratio"), kv.at("bytes_f16").get<double>() / kv.at("bytes").get<double>(), 1e-9);
  EXPECT_NEAR(kv.at("bits_per_value").get<double>() * kv.at("ratio").get<double>(), 16, 1e-9);
  EXPECT_EQ(result.at("layers").size(), 2u);
  EXPECT_EQ(result.at("effective").at("sink"), 16);
  // The plan of that length is what the pool handed out: the prompt and all but the last token are in the cache.
  const int held =
      result.at("prompt_tokens").get<int>() + result.at("tokens").get<int>() - (result.at("stop") == "length");
  const Json plan = json(
      {"plan", "-m", "TINY", "-c", std::to_string(held), "--sink", "16", "--recent", "64", "--kv", "turbo3,turbo2"});
  EXPECT_EQ(plan.at("bytes"), kv.at("bytes"));
  EXPECT_EQ(plan.at("bytes_f16"), kv.at("bytes_f16"));
  // Greedy text is the same each time, streamed or not.
  std::string text = result.at("text");
  const Outcome streamed = program(arguments);
  EXPECT_EQ(json(arguments).at("text"), text);
  if (text.find("\xef\xbf\xbd") == std::string::npos) {  // else --json had to replace bytes that aren't UTF-8
    EXPECT_EQ(streamed.out, text + "\n");
  }
}

TEST_F(Results, RunWithASeed) {
  std::vector<std::string> arguments = {"run", "-m", "TINY", "-p", "hello", "-n", "20", "--temp", "1.5", "--seed", "7"};
  const Json first = json(arguments), second = json(arguments);
  EXPECT_EQ(first.at("text"), second.at("text"));
  EXPECT_EQ(first.at("seed"), 7);
}

TEST_F(Results, RunReadsThePromptOnly) {
  const Json result = json({"run", "-m", "TINY", "-p", "hello", "-n", "0"});
  EXPECT_EQ(result.at("tokens"), 0);
  EXPECT_EQ(result.at("text"), "");
  EXPECT_EQ(result.at("stop"), "length");
}

TEST_F(Results, RunStopsAtAFullContext) {
  const Json result = json({"run", "-m", "TINY", "-p", "hello", "--raw", "-c", "32", "--temp", "0"});
  if (result.at("stop") != "end") {
    EXPECT_EQ(result.at("stop"), "context");
    EXPECT_EQ(result.at("prompt_tokens").get<int>() + result.at("tokens").get<int>(), 33);  // the last isn't fed
  }
}

TEST_F(Results, LlamaFlagNames) {
  const Json result =
      json({"run", "-m", "TINY", "-p", "hi", "-n", "1", "-ngl", "0", "-ctk", "q8", "-ctv", "turbo2", "-ub", "32"});
  EXPECT_EQ(result.at("kv").at("codec_k"), "q8");
  EXPECT_EQ(result.at("kv").at("codec_v"), "turbo2");
  EXPECT_EQ(result.at("effective").at("micro_batch"), 32);
}

TEST_F(Results, EvalKld) {
  const Json result = json({"eval", "kld", "-m", "TINY", "-f", "TEXT", "-c", "512", "--chunks", "2", "--base", "native",
                            "--kv", "turbo4", "--sink", "16", "--recent", "64"});
  EXPECT_EQ(result.at("chunks"), 2);
  EXPECT_EQ(result.at("tokens"), 2 * 255);
  const Json& kld = result.at("kld");
  EXPECT_GT(kld.at("mean"), 0.0);
  EXPECT_GT(kld.at("se"), 0.0);
  EXPECT_LE(kld.at("median"), kld.at("p90"));
  EXPECT_LE(kld.at("p99"), kld.at("p999"));
  EXPECT_LE(kld.at("p999"), kld.at("max"));
  EXPECT_NEAR(std::log(result.at("ppl").get<double>() / result.at("ppl_base").get<double>()),
              result.at("ln_ppl_ratio").at("mean"), 1e-9);
  EXPECT_LE(result.at("top1"), 1.0);
  EXPECT_GT(result.at("bits_per_value"), 4.0);
  EXPECT_EQ(result.at("effective_base").at("native"), true);
  const Json native =
      json({"eval", "kld", "-m", "TINY", "-f", "TEXT", "-c", "256", "--chunks", "1", "--kv", "native:q8_0,q4_0"});
  EXPECT_NEAR(native.at("bits_per_value"), 6.5, 1e-9);
}

TEST_F(Results, Plan) {
  const Json small = json({"plan", "-m", "TINY", "-c", "8192", "--kv", "turbo2", "--memory", "4M"});
  EXPECT_GT(small.at("ratio"), 1.0);
  const Json& parts = small.at("parts");
  EXPECT_EQ(parts.at("key_pages").get<int64_t>() + parts.at("value_pages").get<int64_t>() +
                parts.at("windows").get<int64_t>(),
            small.at("bytes").get<int64_t>());
  const int64_t most = small.at("max_context");
  const auto bytes = [&](int64_t tokens) {
    return json({"plan", "-m", "TINY", "-c", std::to_string(tokens), "--kv", "turbo2"}).at("bytes").get<int64_t>();
  };
  EXPECT_LE(bytes(most), 4 << 20);
  EXPECT_GT(bytes(most + 1), 4 << 20);
  EXPECT_NE(program({"plan", "-m", "TINY", "--no-calibration"}).out.find("turbo4.5,turbo4 (auto)"), std::string::npos);
}

TEST_F(Results, Distort) {
  const Json result = json({"distort", "--kv", "turbo3", "--dim", "128", "--tokens", "20480"});
  EXPECT_NEAR(result.at("mse").get<double>() /
                  (result.at("gaussian_mse").get<double>() * result.at("scale_effect").get<double>()),
              1, 0.01);
  EXPECT_LT(std::abs(result.at("ip_bias").get<double>()), 3 * result.at("ip_bias_se").get<double>());
  EXPECT_EQ(result.at("shannon_mse"), 0.015625);
  EXPECT_GT(result.at("ip_var"), 0.0);
  EXPECT_EQ(result.at("bits_per_value"), 3.375);
  EXPECT_EQ(result.at("sides").at("value").at("bits_per_value"), 3.125);
  const Json plain =
      json({"distort", "--kv", "turbo3", "--dim", "128", "--tokens", "640", "--side", "key", "--no-protect"});
  EXPECT_EQ(plain.at("bits_per_value"), 3.125);
}

TEST_F(Results, Help) {
  EXPECT_EQ(program({"--help"}).status, 0);
  EXPECT_EQ(program({"run", "--help"}).status, 0);
  EXPECT_EQ(program({"--version"}).out.rfind("kvasir ", 0), 0u);
}

}  // namespace
}  // namespace kvasir::cli::test
