// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir bench turns on SmolLM2: what the tiny model can't show is the real template, and a text that goes on.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kvasir/engine.h"
#include "tests/cli/program.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;

Json turns(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"bench",    "turns", "-m",    resolve_model("smollm2"), "-n", "3", "--kv", "q8",
                                        "--budget", "128",   "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

TEST(TurnsOnSmolLM2, FiveTurnsInThreeWays) {
  const Json result = turns({"--turns", "5"});
  EXPECT_EQ(result.at("context"), result.at("trained_context"));
  ASSERT_EQ(result.at("ways").size(), 3u);
  const Json &full = result.at("ways")[0], &episodes = result.at("ways")[1], &native = result.at("ways")[2];
  EXPECT_EQ(full.at("name"), "full q8");
  EXPECT_EQ(episodes.at("name"), "episodes q8");
  EXPECT_EQ(native.at("name"), "native f16");
  for (const Json& way : result.at("ways")) {
    EXPECT_EQ(way.at("turns").at("talk_tokens"), native.at("turns").at("talk_tokens"));
    EXPECT_GE(way.at("peak_bytes"), way.at("bytes"));
  }
  EXPECT_GT(full.at("turns").at("bytes")[4], full.at("turns").at("bytes")[0]);
  EXPECT_EQ(native.at("turns").at("bytes")[4], native.at("turns").at("bytes")[0]);
  EXPECT_EQ(native.at("decoded"), full.at("decoded"));
  // 250 tokens: still one episode that holds them all, so the two of ours do the same.
  EXPECT_EQ(episodes.at("clustered"), 0);
  EXPECT_EQ(episodes.at("turns").at("decoded"), full.at("turns").at("decoded"));
  EXPECT_EQ(episodes.at("turns").at("bytes"), full.at("turns").at("bytes"));
}

TEST(TurnsOnSmolLM2, EpisodesThatWereClustered) {
  const Json result = turns({"--turns", "8", "--methods", "episodes", "--native", "none", "--episodes", "2"});
  const Json& episodes = result.at("ways")[0];
  EXPECT_EQ(episodes.at("clustered"), 1);
  EXPECT_GT(episodes.at("peak_bytes"), episodes.at("bytes"));
  EXPECT_GT(episodes.at("decoded"), episodes.at("turns").at("talk_tokens")[7]);
  EXPECT_TRUE(result.at("break_even").empty());
}

}  // namespace
}  // namespace kvasir::cli::test
