// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_session.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "host/model_fingerprint.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChat = "chat";
constexpr const char* kText = "text";

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// CBOR, since texts of a model needn't be UTF-8.
std::string packed(const Json& data) {
  std::string bytes;
  Json::to_cbor(data, bytes);
  return bytes;
}

Json unpacked(const SequenceRecord& record) {
  Json data = Json::from_cbor(record.data, true, false);
  if (!data.is_object() || !data.contains("kind"))
    throw Error(ErrorCode::corrupt,
                "the session holds no conversation: another program than `kvasir run` and `kvasir "
                "chat` saved it");
  return data;
}

ConversationState conversation_state(const Json& data, std::vector<int32_t> tokens) {
  ConversationState state;
  for (const Json& message : data.at("messages"))
    state.messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
  state.held_text = data.at("held_text").get<std::string>();
  state.text_is_exact = data.at("text_is_exact").get<bool>();
  state.held_tokens = std::move(tokens);
  return state;
}

Json messages_json(const ConversationState& state) {
  Json messages = Json::array();
  for (const Model::Message& message : state.messages)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  return messages;
}

void require_kind(const std::string& name, const Json& data, const char* kind) {
  const std::string found = data.at("kind").get<std::string>();
  if (found == kind) return;
  const char* const what = found == kText           ? "is a raw text: go on with `kvasir run --raw`"
                           : found == kEpisodesKind ? "is kept in episodes: go on with `kvasir chat --memory episodes`"
                                                    : "is a chat: leave out --raw";
  throw Error(ErrorCode::invalid_argument, fmt::format("the session `{}` {}, or give another --session", name, what));
}

void require_system(const std::string& name, std::span<const Model::Message> messages, const std::string& system) {
  if (system.empty()) return;
  const bool same = !messages.empty() && messages[0].role == "system" && messages[0].content == system;
  if (!same)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the session `{}` began with another system message or none: leave out --system, or give "
                            "another --session",
                            name));
}

}  // namespace

void add_session_flag(CLI::App& command, std::optional<std::string>& name) {
  command.add_option("--session", name,
                     "keep what is said under this name, and go on from there the next time (`kvasir session`)");
}

std::string session_folder() {
  if (const char* folder = variable("KVASIR_SESSION_DIR")) return folder;
  if (const char* data = variable("XDG_DATA_HOME")) return (fs::path(data) / "kvasir" / "sessions").string();
  if (const char* home = variable("HOME")) return (fs::path(home) / ".local/share/kvasir/sessions").string();
  throw Error(ErrorCode::not_found,
              "none of KVASIR_SESSION_DIR, XDG_DATA_HOME and HOME is set, so there is no folder of sessions");
}

Json session_content(const SequenceRecord& record) {
  const Json data = unpacked(record);
  Json content = {{"kind", data.at("kind")}};
  if (data.at("kind") == kChat) content["messages"] = data.at("messages");
  if (data.at("kind") == kEpisodesKind) content.update(Json(episodic_summary(nlohmann::json(data))));
  return content;
}

KeptSession::KeptSession(const std::string& name)
    : session_(SessionStore(session_folder()).open(name)),
      saved_(session_.info()),
      restore_seconds_(opening_.seconds()) {}

void KeptSession::check_room(int64_t context) const {
  if (!saved_ || saved_->tokens < context) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("the session `{}` holds {} tokens, which is no less than -c {}: "
                                                       "raise -c, or give another --session",
                                                       session_.name(), saved_->tokens, context));
}

const std::string& KeptSession::model_of(const Engine& engine) const {
  if (model_.empty()) model_ = engine.model().fingerprint() + "-" + weights_fingerprint(engine.model().path());
  return model_;
}

template <typename Restore>
auto KeptSession::restoring(const Restore& restore) const {
  const Stopwatch watch;
  try {
    auto restored = restore();
    restore_seconds_ += watch.seconds();
    return restored;
  } catch (const Error& error) {
    const bool lost = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::not_found;
    throw Error(error.code(), fmt::format("the session `{}` can't go on: {}{}", session_.name(), error.what(),
                                          lost ? " (`kvasir session remove` forgets it)" : ""));
  }
}

RestoredSequence KeptSession::restore(Engine& engine) const {
  const std::string& model = model_of(engine);
  return restoring([&] { return session_.restore(engine.cache(), model); });
}

Conversation KeptSession::conversation(Engine& engine, const std::string& system) const {
  if (!saved_) return Conversation(engine, system);
  RestoredSequence restored = restore(engine);
  const Json data = unpacked(restored.record);
  require_kind(session_.name(), data, kChat);
  ConversationState state = conversation_state(data, std::move(restored.record.tokens));
  require_system(session_.name(), state.messages, system);
  return Conversation(engine, restored.sequence, std::move(state));
}

RawText KeptSession::raw_text(Engine& engine) const {
  if (!saved_) return RawText(engine, engine.cache().create(), {});
  RestoredSequence restored = restore(engine);
  const Json data = unpacked(restored.record);
  require_kind(session_.name(), data, kText);
  RawTextState state{std::move(restored.record.tokens), data.at("pending").get<std::vector<int32_t>>()};
  return RawText(engine, restored.sequence, std::move(state));
}

void KeptSession::save(const Engine& engine, SequenceId sequence, const std::vector<int32_t>& tokens,
                       const Json& data) {
  const Stopwatch watch;
  session_.save(engine.cache(), sequence,
                {model_of(engine), fs::path(engine.model().path()).filename().string(), tokens, packed(data)});
  saved_ = session_.info();
  save_seconds_ = watch.seconds();
}

std::unique_ptr<EpisodicChat> KeptSession::episodes(const EpisodicSetup& setup, const std::string& system,
                                                    const nlohmann::json& settings) {
  settings_ = settings;
  if (!saved_) return std::make_unique<EpisodicChat>(setup, EpisodicChatState{system, {}});
  const EpisodicIdentity identity{model_of(setup.answering), saved_->model_name, settings_};
  auto chat = restoring([&] { return episodes_.restore(setup, identity); });
  require_system(session_.name(), chat->messages(), system);
  return chat;
}

bool KeptSession::save(const EpisodicChat& chat) {
  const Stopwatch watch;
  const Engine& engine = chat.answering();
  const bool whole =
      episodes_.save(chat, {model_of(engine), fs::path(engine.model().path()).filename().string(), settings_});
  saved_ = session_.info();
  save_seconds_ = watch.seconds();
  return whole;
}

Json KeptSession::json() const {
  return {{"name", session_.name()},
          {"bytes", saved_ ? saved_->bytes : 0},
          {"restore_seconds", restore_seconds_},
          {"save_seconds", save_seconds_}};
}

void KeptSession::save(const Engine& engine, const Conversation& conversation) {
  const ConversationState& state = conversation.state();
  save(engine, conversation.sequence(), state.held_tokens,
       {{"kind", kChat},
        {"messages", messages_json(state)},
        {"held_text", state.held_text},
        {"text_is_exact", state.text_is_exact}});
}

void KeptSession::save(const Engine& engine, const RawText& text) {
  save(engine, text.sequence(), text.state().held_tokens, {{"kind", kText}, {"pending", text.state().pending}});
}

}  // namespace kvasir::cli
