// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir session list, show, fork, remove: what run and chat --session keep.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/kept_session.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

struct SessionFlags {
  std::string name, to;
  bool json = false;
};

std::string time_text(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time_t(seconds)));
}

Json info_json(const SessionInfo& info) {
  return {{"name", info.name},     {"model", info.model_name}, {"fingerprint", info.model},
          {"tokens", info.tokens}, {"bytes", info.bytes},      {"changed", time_text(info.changed)},
          {"file", info.file},     {"parts", info.parts}};
}

void list(const SessionFlags& flags) {
  const std::string folder = session_folder();
  // Looking makes no folder.
  const std::vector<SessionInfo> sessions =
      std::filesystem::exists(folder) ? SessionStore(folder).list() : std::vector<SessionInfo>();
  if (flags.json) {
    Json entries = Json::array();
    for (const SessionInfo& info : sessions) entries.push_back(info_json(info));
    return print_json({{"folder", folder}, {"sessions", std::move(entries)}});
  }
  if (sessions.empty()) return note("no sessions in " + folder);
  for (const SessionInfo& info : sessions)
    fmt::print("{}  {:>7} tokens  {:>9}  {}  {}\n", time_text(info.changed), info.tokens, format_bytes(info.bytes),
               info.model_name, info.name);
}

void show(const SessionFlags& flags) {
  const SessionInfo info = SessionStore(session_folder()).find(flags.name);
  const SnapshotSummary summary = read_snapshot(info.file);
  Json result = info_json(info);
  result.update(
      Json{{"codec_k", summary.key}, {"codec_v", summary.value}, {"sink", summary.sink}, {"recent", summary.recent}});
  result.update(session_content(summary.record));
  if (flags.json) return print_json(result);
  fmt::print("{}: {} with {}, {} tokens, {}, --kv {},{} --sink {} --recent {}, last changed {}\n", info.name,
             result["kind"].get<std::string>(), info.model_name, info.tokens, format_bytes(info.bytes), summary.key,
             summary.value, summary.sink, summary.recent, time_text(info.changed));
  for (const Json& message : result.value("messages", Json::array()))
    fmt::print("\n[{}]\n{}\n", message["role"].get<std::string>(), message["content"].get<std::string>());
}

void fork(const SessionFlags& flags) {
  SessionStore store(session_folder());
  store.fork(flags.name, flags.to);
  if (flags.json) return print_json(info_json(store.find(flags.to)));
  note(fmt::format("`{}` goes on from where `{}` is", flags.to, flags.name));
}

void remove(const SessionFlags& flags) {
  SessionStore store(session_folder());
  const SessionInfo info = store.find(flags.name);
  store.remove(flags.name);
  if (flags.json) return print_json({{"removed", info.name}, {"tokens", info.tokens}});
  note(fmt::format("`{}` is gone", flags.name));
}

}  // namespace

void add_session(CLI::App& program) {
  const auto flags = std::make_shared<SessionFlags>();
  CLI::App* group = program.add_subcommand("session", "conversations that --session keeps");
  group->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, void (*act)(const SessionFlags&)) {
    CLI::App* command = group->add_subcommand(name, what);
    command->add_flag("--json", flags->json, "print one JSON object");
    command->callback([flags, act] { act(*flags); });
    return command;
  };
  add("list", "all of them", list);
  add("show", "one with its messages", show)->add_option("name", flags->name, "the session")->required();
  CLI::App* forking = add("fork", "a second session that starts where one is", fork);
  forking->add_option("name", flags->name, "the session")->required();
  forking->add_option("to", flags->to, "the new one's name")->required();
  add("remove", "delete one", remove)->add_option("name", flags->name, "the session")->required();
}

}  // namespace kvasir::cli
