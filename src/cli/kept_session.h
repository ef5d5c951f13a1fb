// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// --session NAME: a conversation or a raw text that outlives the program.
#pragma once

#include <optional>
#include <string>

#include "cli/conversation.h"
#include "cli/raw_text.h"
#include "cli/terminal.h"
#include "host/episodic_session.h"
#include "kvasir/session.h"

namespace CLI {
class App;
}

namespace kvasir::cli {

void add_session_flag(CLI::App& command, std::optional<std::string>& name);

// KVASIR_SESSION_DIR, or kvasir/sessions in the user's data folder (XDG_DATA_HOME, ~/.local/share). Throws Error
// not_found if no variable says where.
std::string session_folder();

// What a snapshot's record holds of a session, for `kvasir session show`: {"kind": "chat", "episodes" or "text",
// "messages": [{"role", "content"}] of a chat, "episodes": how many}. Throws Error corrupt.
Json session_content(const SequenceRecord& record);

class KeptSession {
 public:
  // Takes the name in session_folder(). Throws what SessionStore throws.
  explicit KeptSession(const std::string& name);
  KeptSession(const KeptSession&) = delete;
  KeptSession& operator=(const KeptSession&) = delete;

  // Whether something was saved under the name.
  bool resumes() const { return saved_.has_value(); }
  // Throws Error invalid_argument if what was saved doesn't fit into -c.
  void check_room(int64_t context) const;

  // What was saved, in the engine's cache, or a new one. Throws Error: invalid_argument (another model, --kv, --sink,
  // --recent, --system; the other kind of session), corrupt, unsupported, out_of_memory.
  Conversation conversation(Engine& engine, const std::string& system) const;
  RawText raw_text(Engine& engine) const;
  // A chat with --memory episodes, kept by `settings` (EpisodicIdentity).
  std::unique_ptr<EpisodicChat> episodes(const EpisodicSetup& setup, const std::string& system,
                                         const nlohmann::json& settings);

  // {"name", "bytes" of the snapshot, "restore_seconds": to open the store and to map, check and take in the snapshot,
  // with the model loaded and known; "save_seconds": of the last save}.
  Json json() const;

  void save(const Engine& engine, const Conversation& conversation);
  void save(const Engine& engine, const RawText& text);
  bool save(const EpisodicChat& chat);  // as EpisodicSession::save

 private:
  RestoredSequence restore(Engine& engine) const;
  template <typename Restore>
  auto restoring(const Restore& restore) const;
  void save(const Engine& engine, SequenceId sequence, const std::vector<int32_t>& tokens, const Json& data);

  Stopwatch opening_;  // first, since it times what follows
  Session session_;
  EpisodicSession episodes_{session_};
  nlohmann::json settings_;  // of a chat in episodes
  std::optional<SessionInfo> saved_;
  mutable std::string model_;  // worked out once
  mutable double restore_seconds_ = 0;
  double save_seconds_ = 0;
  const std::string& model_of(const Engine& engine) const;
};

}  // namespace kvasir::cli
