// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir bench turns`: one long talk, kept in several ways that take turns in one process, and what each turn costs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "cli/bench.h"
#include "cli/codec_list.h"
#include "cli/effective_config.h"
#include "cli/interrupt.h"
#include "cli/memory_flags.h"
#include "cli/model_flags.h"
#include "cli/turns_report.h"
#include "eval/talk_messages.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr size_t kNoteEvery = 10;  // turns

struct TurnsFlags {
  ModelFlags model;
  MemoryFlags memory;
  CacheOptions cache;
  bool no_protect = false, json = false;
  int turns = 300, answer_tokens = 16;
  std::string kv = "auto", file;
  std::vector<std::string> methods = {"full", "episodes"}, native = {"f16"};
  uint64_t seed = 42;

  bool has(const std::string& method) const { return std::ranges::count(methods, method) > 0; }
};

void check(const CLI::App& command, const TurnsFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.turns < 1 || flags.turns > 100'000) refuse(fmt::format("--turns takes 1 to 100000, got {}", flags.turns));
  if (flags.answer_tokens < 1 || flags.answer_tokens > 100'000)
    refuse(fmt::format("-n takes 1 to 100000 tokens of each answer, got {}", flags.answer_tokens));
  for (const std::string& method : flags.methods) {
    if (method != "full" && method != "episodes")
      refuse(fmt::format("--methods takes full and episodes, got '{}'", method));
    if (std::ranges::count(flags.methods, method) > 1) refuse(fmt::format("--methods names '{}' twice", method));
  }
  if (flags.methods.empty() && flags.native.empty()) refuse("no way to keep the talk: name some with --methods");
  if (flags.cache.sink < 0 || flags.cache.recent < 0)
    refuse(
        fmt::format("--sink and --recent take 0 or more tokens, got {} and {}", flags.cache.sink, flags.cache.recent));
  if (!flags.file.empty() && command.count("--seed") > 0)
    refuse("--seed draws a dialogue, and -f gives a recorded one: leave one of them out");
  MemoryFlags memory = flags.memory;
  memory.memory = flags.has("episodes") ? "episodes" : "full";
  check_episode_flags(command, memory, "--methods episodes");
}

// The engines of all ways over one model, and the talks that they keep.
class TurnsBench {
 public:
  TurnsBench(const TurnsFlags& flags, std::vector<std::string> messages)
      : flags_(flags), messages_(std::move(messages)) {
    const std::vector<NamedOptions> codecs = parse_codec_list(flags.kv, flags.cache);
    model_ = load_model(flags.model);
    context_ = context_length(flags.model, *model_);
    note_untrained_context(context_, *model_);
    for (const std::string& method : flags.methods)
      for (const NamedOptions& codec : codecs) add_ours(method, codec);
    for (const std::string& type : flags.native) {
      native_.push_back(as_argument([&] {
        return std::make_unique<NativeEngine>(model_, type, type, context_, flags.model.micro_batch, threads());
      }));
      ways_.push_back({"native " + type, talk_in_full(*model_, *native_.back())});
      kept_.push_back(nullptr);
    }
  }

  void run() {
    const InterruptGuard interrupt;
    ProgressBar bar("turns", int64_t(messages_.size()));
    played_ = play_talk(ways_, messages_, flags_.answer_tokens, context_, [&](const PlayedTalk& so_far) {
      bar.set(int64_t(so_far.turns));
      if (so_far.turns % kNoteEvery == 0) note_progress(so_far);
      return !interrupt.interrupted();
    });
    bar.clear();
  }

  Json json() const {
    Json json = {{"model", model_->path()},    {"talk", flags_.file.empty() ? Json("dialogue") : Json(flags_.file)},
                 {"turns", flags_.turns},      {"answer_tokens", flags_.answer_tokens},
                 {"context", context_},        {"trained_context", model_->trained_context()},
                 {"stopped", played_.stopped}, {"positions_ended", played_.next_tokens > 0},
                 {"threads", threads()},       {"micro_batch", flags_.model.micro_batch}};
    if (flags_.file.empty()) json["seed"] = flags_.seed;
    if (!parts_.empty()) json["episodic"] = parts_[0]->settings();
    if (!parts_.empty()) json["episodic"]["--episodes"] = flags_.memory.episodes;
    json.update(turns_json(played_));
    for (size_t i = 0; i < kept_.size(); ++i)
      if (kept_[i] != nullptr)
        json["ways"][i]["effective"] = effective_json(kept_[i]->cache(), context_, flags_.model.micro_batch, threads());
    json["peak_rss"] = peak_resident_bytes();
    return json;
  }

  void print() const {
    const int64_t tokens = played_.ways[0].turns.back().talk_tokens;
    fmt::print("{}, {} turns, {} tokens together, {} in each answer, -t {}\n", flags_.model.model, played_.turns,
               tokens, flags_.answer_tokens, threads());
    if (!parts_.empty())
      fmt::print("episodes: {} of {} tokens, chosen in blocks of {}\n", flags_.memory.episodes, flags_.memory.budget,
                 parts_[0]->settings().at("--block").get<int>());
    if (played_.next_tokens > 0)
      fmt::print(
          "The talk ends after turn {} of {}: the next one would need {} positions, and -c gives {} (the model "
          "was trained for {}). It ends so in every way, since what episodes drop keeps its positions.\n",
          played_.turns, messages_.size(), played_.next_tokens, context_, model_->trained_context());
    if (played_.stopped)
      fmt::print("Stopped after turn {} of {}: this is what was played so far.\n", played_.turns, messages_.size());
    fmt::print("\n{}", turns_tables(played_));
  }

 private:
  // A run takes long: one line now and then, with the time of each way so far.
  static void note_progress(const PlayedTalk& so_far) {
    std::string line = fmt::format("turn {}, {} tokens:", so_far.turns, so_far.ways[0].turns.back().talk_tokens);
    for (const WayTimes& way : so_far.ways) {
      const std::vector<double> seconds = turn_seconds(way);
      line += fmt::format(" {} {:.1f} s,", way.name, std::accumulate(seconds.begin(), seconds.end(), 0.0));
    }
    line.pop_back();
    note(line);
  }

  int threads() const { return thread_count(flags_.model); }

  void add_ours(const std::string& method, const NamedOptions& codec) {
    engines_.push_back(std::make_unique<Engine>(model_, engine_options(flags_.model, *model_, codec.options)));
    Engine& engine = *engines_.back();
    const std::string name = method + " " + codec.name;
    note(name + ":");
    note_cache(engine.cache(), context_, threads());
    kept_.push_back(&engine);
    if (method == "full") {
      ways_.push_back({name, talk_in_full(engine)});
      return;
    }
    parts_.push_back(std::make_unique<EpisodicParts>(model_, engine, flags_.memory));
    ways_.push_back({name, talk_in_episodes(parts_.back()->setup())});
  }

  TurnsFlags flags_;
  std::vector<std::string> messages_;
  std::shared_ptr<Model> model_;
  int64_t context_ = 0;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<EpisodicParts>> parts_;
  std::vector<std::unique_ptr<NativeEngine>> native_;
  std::vector<const Engine*> kept_;  // of each way; null for llama.cpp's own
  std::vector<NamedTalk> ways_;
  PlayedTalk played_;
};

void bench_turns(const CLI::App& command, TurnsFlags flags) {
  check_model_flags(flags.model);
  flags.native = native_list(flags.native);
  check(command, flags);
  flags.cache.protect = !flags.no_protect;
  if (command.count("--ctx-size") == 0) flags.model.context = 0;
  TurnsBench bench(flags, flags.file.empty() ? dialogue_messages(size_t(flags.turns), flags.seed)
                                             : recorded_messages(flags.file, size_t(flags.turns)));
  bench.run();
  if (flags.json)
    print_json(bench.json());
  else
    bench.print();
}

}  // namespace

void add_bench_turns(CLI::App& bench) {
  const auto flags = std::make_shared<TurnsFlags>();
  CLI::App* command =
      bench.add_subcommand("turns", "a long talk, turn by turn: all of it in one cache, against episodes");
  add_model_flags(*command, flags->model);
  command->get_option("--ctx-size")
      ->description("positions, for all ways; not given or 0: what the model was trained for");
  command->add_option("--turns", flags->turns, "messages, each with an answer")->capture_default_str();
  command->add_option("-n,--predict", flags->answer_tokens, "tokens of each answer, exactly")->capture_default_str();
  command->add_option("--methods", flags->methods, "ways to keep the talk: full, episodes; each in all of --kv")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--kv", flags->kv, "codecs A,B,... (K/V for a pair)")->capture_default_str();
  command->add_option("--native", flags->native, "llama.cpp's own caches to compare with; none: none")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-f,--file", flags->file,
                      "what is said, from a conversation in the format of LoCoMo or RealTalk");
  command->add_option("--seed", flags->seed, "of a dialogue made here")->capture_default_str();
  command->add_option("--sink", flags->cache.sink, "first tokens kept in 16 bits")->capture_default_str();
  command->add_option("--recent", flags->cache.recent, "last tokens kept in 16 bits")->capture_default_str();
  command->add_flag("--no-protect", flags->no_protect, "leave out the codec's default protections");
  add_episode_flags(*command, flags->memory);
  command->add_flag("--json", flags->json, "print one JSON object, each turn's numbers in it");
  command->callback([flags, command] { bench_turns(*command, *flags); });
}

}  // namespace kvasir::cli
