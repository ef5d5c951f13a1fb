// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A chat in episodes as a session of a store: the session's first sequence is empty and carries the record, its parts
// are the episodes. One transaction makes a turn visible, and only episodes that the turn has changed are written.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "host/episodic_chat.h"
#include "kvasir/session.h"

namespace kvasir {

inline constexpr const char* kEpisodesKind = "episodes";  // "kind" in SequenceRecord::data, which is CBOR

// Who asks, and what must not change from one run to the next: texts or numbers by the flag that sets them.
struct EpisodicIdentity {
  std::string model, model_name;  // as in SequenceRecord
  nlohmann::json settings;
};

class EpisodicSession {
 public:
  // Of a session that outlives this object.
  explicit EpisodicSession(Session& session) : session_(session) {}

  // What was saved last; without any prefill, the episodes' pages stay in their files. Throws Error: not_found (nothing
  // was saved), invalid_argument (another model, codec, window or setting, or not a chat in episodes), corrupt, and
  // what restoring and EpisodicChat throw.
  std::unique_ptr<EpisodicChat> restore(const EpisodicSetup& setup, const EpisodicIdentity& identity);

  // After a turn. Throws what Session::save throws; what was saved before then stands.
  // False, and nothing written, where the reading of the past was stopped: what was saved last has the same turns, if
  // it was saved.
  bool save(const EpisodicChat& chat, const EpisodicIdentity& identity);

 private:
  Session& session_;
  std::map<uint64_t, std::string> files_;  // of episodes that are saved, by revision
};

// {"messages": [{"role", "content"}], "episodes": how many} of a record that was unpacked.
nlohmann::json episodic_summary(const nlohmann::json& data);

}  // namespace kvasir
