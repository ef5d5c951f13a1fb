// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// --session and kvasir session, from outside, on a tiny model.
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kvasir/session.h"
#include "tests/cli/tiny_model.h"

namespace kvasir::cli::test {
namespace {

using Json = nlohmann::json;

class SessionCommand : public TinyModelTest {
 protected:
  SessionCommand() { setenv("KVASIR_SESSION_DIR", file("sessions").c_str(), 1); }
  ~SessionCommand() override { unsetenv("KVASIR_SESSION_DIR"); }

  std::vector<std::string> run_arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"run",    "-m", file("tiny.gguf"), "--raw", "--temp", "0", "-t", "1",
                                          "--sink", "16", "--recent",        "64",    "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Json run(const std::vector<std::string>& more) const { return Json::parse(expect_success(run_arguments(more))); }
  void expect_refused(const std::vector<std::string>& arguments, const std::string& what, int status = 2) const {
    const Outcome outcome = run_program(KVASIR_PROGRAM, arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(what), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
};

TEST_F(SessionCommand, ResumedTextIsTheTextOfOneRun) {
  const std::vector<std::string> kv = {"--kv", "turbo3.5"};
  const auto with_kv = [&](std::vector<std::string> more) {
    more.insert(more.end(), kv.begin(), kv.end());
    return more;
  };
  // 64 tokens at a time in both, so that the arithmetic is the same to the last bit.
  const Json whole = run(with_kv({"-f", file("text.txt"), "-n", "30"}));
  const Json first = run(with_kv({"-f", file("text.txt"), "-n", "12", "--session", "s"}));
  EXPECT_EQ(first.at("reused_tokens"), 0);
  EXPECT_EQ(first.at("stop"), "length");
  const Json second = run(with_kv({"-n", "18", "--session", "s"}));
  EXPECT_EQ(first.at("text").get<std::string>() + second.at("text").get<std::string>(), whole.at("text"));
  EXPECT_EQ(second.at("reused_tokens"), first.at("prompt_tokens").get<int>() + 11);
  EXPECT_EQ(second.at("prompt_tokens"), second.at("reused_tokens").get<int>() + 1);
  EXPECT_GT(second.at("kv").at("bytes_mapped"), 0);
  EXPECT_EQ(second.at("kv").at("bytes"), second.at("kv").at("bytes_pages").get<int64_t>() +
                                             second.at("kv").at("bytes_mapped").get<int64_t>() +
                                             second.at("kv").at("bytes_windows").get<int64_t>());
  EXPECT_EQ(second.at("session").at("name"), "s");
  EXPECT_GT(second.at("session").at("bytes"), 4096);

  // What no longer fits is refused by name of the flag, and the session stays.
  const auto refused = [&](const std::vector<std::string>& more, const std::string& what) {
    std::vector<std::string> arguments = run_arguments(more);
    for (const char* more_flag : {"-p", "x", "--session", "s"}) arguments.emplace_back(more_flag);
    expect_refused(arguments, what);
  };
  refused({"--kv", "turbo4"}, "--kv turbo3.5,turbo3.5");
  refused(with_kv({"-c", "100"}), "raise -c");
  const Json listed = Json::parse(expect_success({"session", "list", "--json"}));
  EXPECT_EQ(listed.at("sessions").at(0).at("tokens").get<int>(), second.at("prompt_tokens").get<int>() + 17);

  kvasir::test::write_tiny_gguf({.seed = 2}, file("tiny.gguf"));
  refused(with_kv({}), "another model");
}

TEST_F(SessionCommand, ListShowForkRemove) {
  EXPECT_EQ(Json::parse(expect_success({"session", "list", "--json"})).at("sessions"), Json::array());
  EXPECT_FALSE(std::filesystem::exists(file("sessions")));
  run({"-p", "one two three", "-n", "3", "--kv", "q8", "--session", "a b"});
  expect_success({"session", "fork", "a b", "c"});
  expect_refused({"session", "fork", "a b", "c"}, "already");
  const Json shown = Json::parse(expect_success({"session", "show", "c", "--json"}));
  EXPECT_EQ(shown.at("kind"), "text");
  EXPECT_EQ(shown.at("codec_k"), "q8");
  EXPECT_EQ(shown.at("sink"), 16);
  EXPECT_EQ(shown.at("model"), "tiny.gguf");
  run({"-p", " four", "-n", "3", "--kv", "q8", "--session", "c"});
  const Json listed = Json::parse(expect_success({"session", "list", "--json"})).at("sessions");
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_LT(listed.at(0).at("tokens"), listed.at(1).at("tokens"));
  EXPECT_NE(expect_success({"session", "list"}).find("a b"), std::string::npos);
  EXPECT_EQ(Json::parse(expect_success({"session", "remove", "c", "--json"})).at("removed"), "c");
  expect_refused({"session", "remove", "c"}, "no session `c`", 1);
  expect_refused({"session", "show", "c"}, "no session `c`", 1);
  expect_refused({"session", "fork", "c", "d"}, "no session `c`", 1);
  for (const char* bad : {"", "a/b"})
    expect_refused(run_arguments({"-p", "x", "--session", bad}), "a session's name has");
  expect_refused({"session"}, "list, show, fork, remove");
}

TEST_F(SessionCommand, InUseAndDamaged) {
  run({"-p", "one two three", "-n", "3", "--kv", "q8", "--session", "s"});
  {
    SessionStore store(file("sessions"));
    const Session mine = store.open("s");
    expect_refused(run_arguments({"-p", "x", "--kv", "q8", "--session", "s"}), "in use", 1);
  }
  const std::string snapshot = SessionStore(file("sessions")).find("s").file;
  std::filesystem::resize_file(snapshot, std::filesystem::file_size(snapshot) - 4096);
  expect_refused(run_arguments({"-p", "x", "--kv", "q8", "--session", "s"}), "kvasir session remove", 1);
  expect_refused({"session", "show", "s"}, snapshot, 1);
  expect_success({"session", "remove", "s"});
  run({"-p", "one", "-n", "3", "--kv", "q8", "--session", "s"});
}

}  // namespace
}  // namespace kvasir::cli::test
