// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/memory_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/cache_flags.h"
#include "cli/terminal.h"
#include "eval/memory_setup.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

// Under which cosine a bare question is about something new, by words (docs/decisions.md). The spread of other encoders
// isn't known here, so theirs is never, unless --new-below says it.
constexpr double kNewBelowWords = 0.08;
constexpr double kNever = -1;

constexpr const char* kFlags[] = {"--budget", "--block",       "--episodes", "--encoder",
                                  "--alpha",  "--store-bytes", "--new-below"};

}  // namespace

void add_memory_flags(CLI::App& command, MemoryFlags& flags) {
  const std::string group = "Memory";
  command
      .add_option("--memory", flags.memory,
                  "full: all that was said, as long as -c holds it; episodes: any length in bounded memory "
                  "(docs/episodes.md)")
      ->group(group)
      ->capture_default_str();
  add_episode_flags(command, flags);
}

void add_episode_flags(CLI::App& command, MemoryFlags& flags) {
  const std::string group = "Memory";
  command.add_option("--budget", flags.budget, "episodes: tokens that each keeps, per KV head and layer")
      ->group(group)
      ->capture_default_str();
  command.add_option("--block", flags.block, "episodes: tokens between two selections; 0: as the budget, 128 to 1024")
      ->group(group)
      ->capture_default_str();
  command.add_option("--episodes", flags.episodes, "episodes that the past is clustered into")
      ->group(group)
      ->capture_default_str();
  command
      .add_option("--encoder", flags.encoder,
                  "episodes: what texts are about, by their words, the model's hidden states, or a GGUF embedding "
                  "model: words, hidden, FILE")
      ->group(group)
      ->capture_default_str();
  command
      .add_option("--alpha", flags.alpha, "episodes: layers that need their past more keep more; 0: all keep the same")
      ->group(group)
      ->capture_default_str();
  command.add_option("--store-bytes", flags.store_bytes, "most bytes of all episodes together, as in 300M")
      ->group(group);
  command
      .add_option("--new-below", flags.new_below,
                  fmt::format("a message whose cosine with every episode is less opens a new one; -1: never ({} with "
                              "--encoder words, else never)",
                              kNewBelowWords))
      ->group(group);
}

void check_memory_flags(const CLI::App& command, const MemoryFlags& flags) {
  if (flags.memory != "full" && !flags.episodic())
    throw Error(ErrorCode::invalid_argument, fmt::format("--memory takes full or episodes, got '{}'", flags.memory));
  check_episode_flags(command, flags, "--memory episodes");
}

void check_episode_flags(const CLI::App& command, const MemoryFlags& flags, const std::string& chosen) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  for (const char* flag : kFlags)
    if (!flags.episodic() && command.count(flag) > 0)
      refuse(fmt::format("{} is for {}: add that, or leave it out", flag, chosen));
  if (flags.budget < 1 || flags.budget > INT32_MAX)
    refuse(fmt::format("--budget takes 1 and more tokens, got {}", flags.budget));
  if (flags.block < 0) refuse(fmt::format("--block takes 0 and more tokens, got {}", flags.block));
  if (flags.episodes < 1 || flags.episodes > 1024)
    refuse(fmt::format("--episodes takes 1 to 1024, got {}", flags.episodes));
  if (!(flags.alpha >= 0 && flags.alpha <= 100)) refuse(fmt::format("--alpha takes 0 to 100, got {}", flags.alpha));
  if (command.count("--new-below") > 0 && !(flags.new_below >= -1 && flags.new_below <= 1))
    refuse(fmt::format("--new-below takes a cosine, -1 to 1, got {}", flags.new_below));
  if (!flags.store_bytes.empty()) parse_bytes(flags.store_bytes, "--store-bytes");
}

EpisodicParts::EpisodicParts(const std::shared_ptr<Model>& model, Engine& answering, const MemoryFlags& flags)
    : answering_(answering), flags_(flags), reading_(model, reading_options(answering.options())) {
  const int threads = answering.options().threads;
  encoder_ = make_encoder(flags.encoder, model, threads);
  if (flags.alpha > 0) {
    ProgressBar bar("profiling", 1000);
    const LayerProfile profile = model_profile(
        model, threads, note, [&](int64_t done, int64_t total) { bar.set(1000 * done / std::max<int64_t>(1, total)); });
    options_.budgets = profiled_budgets(*model, profile, flags.budget, flags.alpha);
  } else {
    options_.budgets = uniform_budgets(*model, flags.budget);
  }
  options_.block = flags_.block = selection_block(flags.block, flags.budget);
  options_.episodes = flags.episodes;
  options_.threshold = flags.new_below >= -1 ? flags.new_below : flags.encoder == "words" ? kNewBelowWords : kNever;
  if (!flags.store_bytes.empty()) options_.most_bytes = parse_bytes(flags.store_bytes, "--store-bytes");
}

nlohmann::json EpisodicParts::settings() const {
  return {{"--budget", flags_.budget},
          {"--block", flags_.block},
          {"--alpha", flags_.alpha},
          {"--encoder", encoder_->name()}};
}

}  // namespace kvasir::cli
