// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir chat --memory episodes, from outside, on a tiny model that has a chat template.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/random.h"
#include "tests/cli/tiny_model.h"
#include "tests/host/chat_fixture.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;
using kvasir::test::message;

class EpisodesCommand : public TinyModelTest {
 protected:
  EpisodesCommand() {
    setenv("KVASIR_SESSION_DIR", file("sessions").c_str(), 1);
    kvasir::test::write_tiny_gguf({.context = 16384, .chat_template = kvasir::test::kChatMl}, file("tiny.gguf"));
  }
  ~EpisodesCommand() override { unsetenv("KVASIR_SESSION_DIR"); }

  // Flags are names with values; those of `more` take the place of these.
  std::vector<std::string> chat(const std::vector<std::string>& more) const {
    std::vector<std::pair<std::string, std::string>> flags = {
        {"--memory", "episodes"}, {"--kv", "turbo4"}, {"--budget", "200"}, {"--alpha", "0"}, {"--sink", "8"},
        {"--recent", "32"},       {"--temp", "0"},    {"-t", "1"},         {"-n", "6"},      {"-m", file("tiny.gguf")}};
    std::vector<std::string> arguments = {"chat"};
    for (const auto& [flag, value] : flags)
      if (std::find(more.begin(), more.end(), flag) == more.end())
        for (const std::string& argument : {flag, value}) arguments.push_back(argument);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::string script(int first, int last) {
    std::string lines;
    for (int i = first; i < last; ++i) lines += message(i) + "\n";
    return lines;
  }
  Json shown(const std::string& name) const { return Json::parse(expect_success({"session", "show", name, "--json"})); }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& what) const {
    const Outcome outcome = run_program(KVASIR_PROGRAM, arguments, script(0, 1));
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.last_error_line().find(what), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
};

TEST_F(EpisodesCommand, ATalkThatGoesOn) {
  const Outcome whole = run_program(KVASIR_PROGRAM, chat({}), script(0, 14));
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.err.find("past clustered, episode"), std::string::npos) << whole.err;
  const Outcome first = run_program(KVASIR_PROGRAM, chat({"--session", "s"}), script(0, 9));
  const Outcome second = run_program(KVASIR_PROGRAM, chat({"--session", "s"}), script(9, 14));
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(first.out + second.out, whole.out);
  EXPECT_NE(second.err.find("goes on after 18 messages"), std::string::npos) << second.err;

  const Json session = shown("s");
  EXPECT_EQ(session.at("kind"), "episodes");
  EXPECT_EQ(session.at("codec_k"), "turbo4");
  EXPECT_EQ(session.at("messages").size(), 28u);
  EXPECT_EQ(session.at("messages").at(26).at("content"), message(13));
  EXPECT_GT(session.at("episodes"), 1);
  EXPECT_EQ(session.at("parts").size(), session.at("episodes").get<size_t>());
  expect_success({"session", "fork", "s", "t"});
  expect_success({"session", "remove", "s"});
  EXPECT_EQ(shown("t").at("messages"), session.at("messages"));

  expect_refused(chat({"--session", "t", "--budget", "300", "--block", "200"}), "--budget 200");
  expect_refused(chat({"--session", "t", "--kv", "turbo3"}), "--kv turbo4");
  expect_refused(chat({"--session", "t", "--system", "Be brief."}), "another system message");
  expect_refused(chat({"--session", "t", "-c", "500"}), "raise -c");
  expect_refused({"chat", "-m", file("tiny.gguf"), "--session", "t", "--kv", "turbo4", "--sink", "8", "--recent", "32"},
                 "kvasir chat --memory episodes");
}

TEST_F(EpisodesCommand, FlagsThatCanNotBe) {
  expect_refused({"chat", "-m", file("tiny.gguf"), "--budget", "100"}, "--budget is for --memory episodes");
  expect_refused(chat({"--memory", "none"}), "full or episodes");
  expect_refused(chat({"--episodes", "0"}), "--episodes");
  expect_refused(chat({"--store-bytes", "10K"}), "--store-bytes");
  expect_refused(chat({"--store-bytes", "x"}), "--store-bytes");
  expect_refused(chat({"--new-below", "2"}), "--new-below");
  expect_refused(chat({"--encoder", file("no.gguf")}), "no embedding model");
}

// The note of a turn comes when it is saved: what was noted is there, and at most one turn more.
TEST_F(EpisodesCommand, KilledAtAnyMoment) {
  const std::string in = file("in"), err = file("err");
  std::ofstream(in) << script(0, 400);
  SplitMix random(7);
  size_t saved = 0;
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const std::vector<std::string> arguments = chat({"--session", "k"});
    std::vector<char*> argv = {const_cast<char*>(KVASIR_PROGRAM)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    std::filesystem::remove(err);
    const pid_t child = fork();
    if (child == 0) {
      setenv("KVASIR_CACHE_DIR", program_cache().c_str(), 1);
      dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    const auto notes = [&] {
      std::ifstream file(err);
      size_t count = 0;
      for (std::string line; std::getline(file, line);) count += line.starts_with("[") && line.ends_with("]");
      return count;
    };
    for (int wait = 0; wait < 3000 && notes() == 0; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(120'000)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status);
    const size_t noted = notes();
    ASSERT_GT(noted, 0u);
    const size_t turns = shown("k").at("messages").size() / 2;
    EXPECT_GE(turns, saved + noted) << "round " << round;
    EXPECT_LE(turns, saved + noted + 1) << "round " << round;
    saved = turns;
  }
  EXPECT_EQ(killed, 12);
  EXPECT_GT(saved, 12u);
  const Outcome last = run_program(KVASIR_PROGRAM, chat({"--session", "k"}), script(0, 1));
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_EQ(shown("k").at("messages").size() / 2, saved + 1);
}

}  // namespace
}  // namespace kvasir::cli::test
