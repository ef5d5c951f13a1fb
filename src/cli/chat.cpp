// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir chat: talk in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>

#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/effective_config.h"
#include "cli/episodic_conversation.h"
#include "cli/kept_calibration.h"
#include "cli/kept_session.h"
#include "cli/memory_flags.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"

namespace kvasir::cli {
namespace {

struct ChatFlags {
  ModelFlags model;
  CacheFlags cache;
  SamplingFlags sampling;
  MemoryFlags memory;
  std::string system;
  std::optional<std::string> session;
  int64_t most_tokens = -1;
};

// The next line typed; false at the end of input.
bool read_message(std::string& line) {
  if (isatty(STDIN_FILENO) == 1) {
    fmt::print(stderr, "> ");
    std::fflush(stderr);
  }
  return bool(std::getline(std::cin, line));
}

void note_turn(const Turn& turn, const Cache& cache) {
  const CacheSize size = cache.size();
  note(fmt::format("[{} tokens read ({} reused) in {:.1f} s, {} at {:.1f}/s, stopped by {}; KV cache {} of {} in f16]",
                   turn.fed_tokens, turn.reused_tokens, turn.prefill_seconds, turn.answer.tokens.size(),
                   turn.answer.tokens_per_second(), to_string(turn.answer.stop), format_bytes(size.total()),
                   format_bytes(size.bytes_f16)));
}

void note_turn(const EpisodicTurn& turn, const EpisodicChat& chat) {
  const EpisodicMemory& memory = chat.memory();
  if (turn.answer.stop == StopReason::interrupted) return note("[interrupted: this turn is forgotten]");
  const std::string where =
      memory.record().clustered_tokens == 0
          ? "all of the past"
          : fmt::format("{}episode {} of {}{} (cosine {:.2f})", turn.clustered ? "past clustered, " : "",
                        turn.episode.episode + 1, memory.episodes().size(), turn.episode.opened ? ", new" : "",
                        turn.episode.cosine);
  note(fmt::format("[{}, {} tokens read in {:.1f} s, {} at {:.1f}/s, stopped by {}; past of {} tokens, episodes {}]",
                   where, turn.fed_tokens, turn.prefill_seconds, turn.answer.tokens.size(),
                   turn.answer.tokens_per_second(), to_string(turn.answer.stop), memory.tokens(),
                   format_bytes(memory.bytes())));
}

void note_session(const std::string& name, size_t messages, int64_t tokens) {
  if (messages == 0) return note(fmt::format("session `{}`: new, saved after each answer", name));
  note(fmt::format("session `{}`: goes on after {} messages, {} tokens", name, messages, tokens));
}

// A conversation, however it is kept.
struct Talk {
  std::function<Turn(const std::string& message, const InterruptGuard& interrupt)> say;
  std::function<void(const Turn& turn)> note_turn;
  std::function<bool()> save;  // whether all that was said is kept now; empty: without a session
};

// An answer that can't be saved is no reason to end the talk; the next one may be.
void save_turn(const Talk& talk, std::optional<Error>& unsaved) {
  try {
    if (talk.save()) unsaved.reset();
  } catch (const Error& error) {
    unsaved = error;
    note(fmt::format("kvasir: the session is not saved: {}", error.what()));
  }
}

void show(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  std::fflush(stdout);
}

void run(const Talk& talk, const Engine& engine) {
  note("Type a message; /exit or Ctrl-D ends, Ctrl-C stops an answer.");
  bool offsets_noted = false;
  std::optional<Error> unsaved;
  for (std::string line; read_message(line);) {
    if (line == "/exit") break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const InterruptGuard interrupt;
    try {
      const Turn turn = talk.say(line, interrupt);
      show("\n");
      if (!offsets_noted && engine.cache().stats().pages_packed > 0) {
        note_key_offsets(engine.cache());
        offsets_noted = true;
      }
      if (talk.save) save_turn(talk, unsaved);
      talk.note_turn(turn);
      if (turn.answer.stop == StopReason::context_full)
        note(fmt::format("the context of {} tokens is full, the answer was cut; start anew or raise -c",
                         engine.options().context));
    } catch (const Error& error) {
      // The conversation stands as before this message; a shorter one may still fit.
      const bool may_go_on = error.code() == ErrorCode::context_full || error.code() == ErrorCode::out_of_memory;
      if (!may_go_on || isatty(STDIN_FILENO) != 1) throw;
      note(std::string("kvasir: ") + error.what());
    }
  }
  if (unsaved) throw *unsaved;
}

void talk_in_full(const ChatFlags& flags, Engine& engine, Sampler& sampler, KeptSession* kept) {
  Conversation conversation = kept ? kept->conversation(engine, flags.system) : Conversation(engine, flags.system);
  const ConversationState& state = conversation.state();
  if (kept)
    note_session(*flags.session, kept->resumes() ? state.messages.size() : 0, int64_t(state.held_tokens.size()));
  Talk talk;
  talk.say = [&](const std::string& message, const InterruptGuard& interrupt) {
    return conversation.say(message, sampler, flags.most_tokens, interrupt, show);
  };
  talk.note_turn = [&](const Turn& turn) { note_turn(turn, engine.cache()); };
  if (kept)
    talk.save = [&] {
      kept->save(engine, conversation);
      return true;
    };
  run(talk, engine);
}

void talk_in_episodes(const ChatFlags& flags, const std::shared_ptr<Model>& model, Engine& engine, Sampler& sampler,
                      KeptSession* kept) {
  EpisodicParts parts(model, engine, flags.memory);
  const std::unique_ptr<EpisodicChat> chat =
      kept ? kept->episodes(parts.setup(), flags.system, parts.settings())
           : std::make_unique<EpisodicChat>(parts.setup(), EpisodicChatState{flags.system, {}});
  if (kept) note_session(*flags.session, kept->resumes() ? chat->messages().size() : 0, chat->memory().tokens());
  EpisodicTurn last;
  Talk talk;
  talk.say = [&](const std::string& message, const InterruptGuard& interrupt) {
    last = say(*chat, message, sampler, flags.most_tokens, interrupt, show);
    return Turn(last);
  };
  talk.note_turn = [&](const Turn&) { note_turn(last, *chat); };
  if (kept) talk.save = [&] { return kept->save(*chat); };
  run(talk, engine);
}

void chat(const CLI::App& command, ChatFlags flags) {
  check_model_flags(flags.model);
  check_sampling_flags(flags.sampling);
  check_memory_flags(command, flags.memory);
  if (flags.most_tokens < -1 || flags.most_tokens == 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("-n takes -1 (until the end) or 1 and more tokens, got {}", flags.most_tokens));
  // Memory doesn't grow with positions then.
  if (flags.memory.episodic() && command.count("--ctx-size") == 0) flags.model.context = 0;
  const CacheOptions options = cache_options(flags.cache);
  std::optional<KeptSession> kept;
  if (flags.session) kept.emplace(*flags.session);
  const std::shared_ptr<Model> model = load_model(flags.model);
  if (kept) kept->check_room(context_length(flags.model, *model));
  // What is resumed has the codecs that it has.
  if (!kept || !kept->resumes()) calibrate_on_first_use(model, flags.cache, options, thread_count(flags.model));
  Engine engine(model, engine_options(flags.model, *model, options));
  note_cache(engine.cache(), engine.options().context, engine.options().threads);
  Sampler sampler(flags.sampling);
  KeptSession* const session = kept ? &*kept : nullptr;
  if (flags.memory.episodic())
    talk_in_episodes(flags, model, engine, sampler, session);
  else
    talk_in_full(flags, engine, sampler, session);
}

}  // namespace

void add_chat(CLI::App& program) {
  const auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = program.add_subcommand("chat", "talk with a model in the terminal");
  add_model_flags(*command, flags->model);
  add_cache_flags(*command, flags->cache);
  add_sampling_flags(*command, flags->sampling);
  command
      ->add_option("-n,--predict,--n-predict", flags->most_tokens,
                   "most tokens of one answer; -1: until the model ends")
      ->capture_default_str();
  command->add_option("--system", flags->system, "a system message (also -sys)");
  add_session_flag(*command, flags->session);
  add_memory_flags(*command, flags->memory);
  command->callback([flags, command] { chat(*command, *flags); });
}

}  // namespace kvasir::cli
