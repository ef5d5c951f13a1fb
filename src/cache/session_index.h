// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Which session has which snapshot: one table in SQLite, and the names of the files around it.
//
//   index.sqlite        this table
//   s-<16 hex>.kvasir   snapshots, each under a fresh name, never changed (s-….kvasir.<6>: one being written)
//   l-<16 hex>.lock     the session whose name has this checksum is in use
//   store.lock          shared while a process saves, exclusive while one looks for snapshots without a name
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvasir/session.h"

struct sqlite3;

namespace kvasir {

class SessionIndex {
 public:
  // Opens the folder's index or makes one. Throws Error: io, corrupt, unsupported.
  explicit SessionIndex(std::string folder);
  ~SessionIndex();
  SessionIndex(const SessionIndex&) = delete;
  SessionIndex& operator=(const SessionIndex&) = delete;

  std::optional<SessionInfo> find(const std::string& name) const;
  std::vector<SessionInfo> list() const;
  // Each of these is one transaction. The path of the snapshot that lost its last name is returned; empty if none did.
  std::string put(const SessionInfo& info);
  bool fork(const std::string& name, const std::string& to);  // false if `to` is taken or `name` gone
  std::string remove(const std::string& name);

  // Deletes snapshots without a name, unless someone is saving.
  void sweep() const;

  std::string fresh_snapshot() const;
  std::string session_lock(const std::string& name) const;
  std::string store_lock() const;

 private:
  class Statement;
  void open_database();
  void check_ours();
  void execute(const char* sql) const;
  [[noreturn]] void fail(const char* doing) const;
  std::string path_of(const std::string& file) const { return folder_ + "/" + file; }
  SessionInfo row(const Statement& statement) const;
  std::vector<std::filesystem::path> snapshots() const;  // in the folder, with a name or without, whole or not
  // Empty if there is no such session.
  std::string file_of(const std::string& name) const;
  void write_row(const SessionInfo& info) const;
  std::string unnamed(const std::string& file) const;  // its path if no session has it
  // What `change` does, in one transaction.
  void transaction(const std::function<void()>& change) const;

  std::string folder_;
  sqlite3* database_ = nullptr;
};

}  // namespace kvasir
