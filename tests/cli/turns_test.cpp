// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir bench turns, from outside, on a tiny model that has a chat template.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/tiny_model.h"
#include "tests/host/chat_fixture.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;

class TurnsCommand : public TinyModelTest {
 protected:
  TurnsCommand() {
    kvasir::test::write_tiny_gguf({.context = 4096, .chat_template = kvasir::test::kChatMl}, file("tiny.gguf"));
  }
  std::vector<std::string> bench(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"bench", "turns", "-m", file("tiny.gguf"), "-t", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Json json(std::vector<std::string> more) const {
    more.emplace_back("--json");
    return Json::parse(expect_success(bench(more)));
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& what) const {
    const Outcome outcome = run_program(KVASIR_PROGRAM, bench(more));
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(what), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
};

const std::vector<std::string> kSmall = {"--sink", "8", "--recent", "32", "--budget", "200", "--episodes", "3"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.end(), kSmall.begin(), kSmall.end());
  return more;
}

TEST_F(TurnsCommand, EveryWayDoesTheSameTurns) {
  const Json result = json(with({"--turns", "12", "-n", "4", "--kv", "turbo4,f16"}));
  EXPECT_EQ(result.at("played"), 12);
  EXPECT_EQ(result.at("positions_ended"), false);
  std::map<std::string, Json> ways;
  for (const Json& way : result.at("ways")) ways[way.at("name")] = way;
  ASSERT_EQ(ways.size(), 5u);
  const Json tokens = ways.at("native f16").at("turns").at("talk_tokens");
  for (const auto& [name, way] : ways) {
    const Json& turns = way.at("turns");
    EXPECT_EQ(turns.at("talk_tokens"), tokens) << name;
    double seconds = 0;
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_GE(turns.at("peak_bytes")[i], turns.at("bytes")[i]) << name << i;
      EXPECT_GT(turns.at("read")[i], 0.0);
      EXPECT_GT(turns.at("generate")[i], 0.0);
      EXPECT_NEAR(turns.at("seconds")[i].get<double>(),
                  turns.at("first_token")[i].get<double>() + turns.at("generate")[i].get<double>() +
                      turns.at("finish")[i].get<double>(),
                  1e-9);
      seconds += turns.at("seconds")[i].get<double>();
    }
    EXPECT_NEAR(way.at("seconds").get<double>(), seconds, 1e-9);
    EXPECT_EQ(way.at("bytes"), turns.at("bytes")[11]);
    EXPECT_EQ(way.at("stretches").back().at("last"), 12);
    EXPECT_EQ(way.contains("effective"), name != "native f16");
  }
  for (const std::string codec : {"turbo4", "f16"}) {
    const Json full = ways.at("full " + codec), episodes = ways.at("episodes " + codec);
    // All but the last token; the last answer's last one would come with the next message.
    EXPECT_EQ(full.at("decoded").get<int64_t>(), tokens[11].get<int64_t>() - 1);
    EXPECT_GT(episodes.at("decoded"), full.at("decoded"));
    EXPECT_GT(episodes.at("prompts"), 0);
    EXPECT_LT(episodes.at("prompts").get<int64_t>(),
              episodes.at("decoded").get<int64_t>() - full.at("decoded").get<int64_t>());
    EXPECT_EQ(full.at("prompts"), 0);
    EXPECT_GT(episodes.at("clustered"), 0);
    EXPECT_GT(episodes.at("rebuild"), 0.0);
    EXPECT_EQ(full.at("rebuild"), 0.0);
    EXPECT_GT(episodes.at("peak_bytes"), episodes.at("bytes"));
    EXPECT_EQ(full.at("peak_bytes"), full.at("bytes"));
    const std::vector<size_t> bytes = full.at("turns").at("bytes");
    EXPECT_TRUE(std::ranges::is_sorted(bytes));
    EXPECT_GT(bytes.back(), bytes.front());
    // One episode holds all of the past until it is clustered: no token is decoded that the full cache doesn't decode.
    for (size_t i = 0; i < 12 && !episodes.at("turns").at("clustered")[i].get<bool>(); ++i)
      EXPECT_EQ(episodes.at("turns").at("decoded")[i], full.at("turns").at("decoded")[i]);
  }
  EXPECT_LT(ways.at("full turbo4").at("bytes"), ways.at("full f16").at("bytes"));
  EXPECT_EQ(result.at("break_even").size(), 2u * 3u);
}

TEST_F(TurnsCommand, SaysWhereThePositionsEnd) {
  const std::vector<std::string> flags =
      with({"--turns", "40", "-n", "2", "--kv", "turbo4", "-c", "1000", "--native", "none"});
  const Json result = json(flags);
  EXPECT_EQ(result.at("positions_ended"), true);
  EXPECT_LT(result.at("played"), 40);
  EXPECT_LE(result.at("ways")[0].at("turns").at("talk_tokens").back(), 1000);
  const std::string text = expect_success(bench(flags));
  EXPECT_NE(text.find("after turn " + std::to_string(result.at("played").get<int>()) + " of 40"), std::string::npos)
      << text;
  EXPECT_NE(text.find("not within"), std::string::npos) << text;
}

TEST_F(TurnsCommand, FlagsThatCanNotBe) {
  expect_refused({"--turns", "0"}, "--turns takes 1");
  expect_refused({"-n", "0"}, "-n takes 1");
  expect_refused({"--methods", "full,half"}, "full and episodes, got 'half'");
  expect_refused({"--methods", "full,full"}, "twice");
  expect_refused({"--kv", "turbo9"}, "turbo9");
  expect_refused({"--native", "q9_0", "--turns", "1"}, "no cache type `q9_0`");
  expect_refused({"--methods", "full", "--budget", "200"}, "--budget is for --methods episodes");
  expect_refused({"--episodes", "0"}, "--episodes");
  expect_refused({"-f", file("text.txt"), "--seed", "1"}, "leave one of them out");
  expect_refused({"-c", "16", "--turns", "1", "--methods", "full", "--kv", "f16"}, "raise -c");
  const Outcome none = run_program(KVASIR_PROGRAM, bench({"-f", file("none.json")}));
  EXPECT_NE(none.status, 0);
  EXPECT_NE(none.last_error_line().find("none.json"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace kvasir::cli::test
