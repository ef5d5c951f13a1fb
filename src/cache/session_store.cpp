// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The order of a save is what makes it safe: the new snapshot is whole and synced before a name points to it, and the
// old one goes only after. What a crash leaves between the two has no name, and is swept by the next store.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file_lock.h"
#include "cache/session_index.h"
#include "kvasir/error.h"
#include "kvasir/session.h"

namespace kvasir {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 200;

bool is_utf8(const std::string& text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

void check_name(const std::string& name) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument,
                "a session's name has 1 to 200 bytes of UTF-8 without / and control characters; this one " + what);
  };
  if (name.empty()) refuse("is empty");
  if (name.size() > kLongestName) refuse(fmt::format("has {}", name.size()));
  if (name.find('/') != std::string::npos) refuse("has a /");
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    refuse("has a control character");
  if (!is_utf8(name)) refuse("isn't UTF-8");
}

FileLock take_name(const SessionIndex& index, const std::string& name) {
  check_name(name);
  auto lock = FileLock::try_lock(index.session_lock(name), FileLock::Kind::exclusive);
  if (!lock)
    throw Error(ErrorCode::io,
                fmt::format("the session `{}` is in use: wait until the other one ends, or fork it", name));
  return std::move(*lock);
}

[[noreturn]] void no_session(const std::string& name) {
  throw Error(ErrorCode::not_found, fmt::format("there is no session `{}`: `kvasir session list` names them", name));
}

void make_folder(const std::string& folder) {
  std::error_code error;
  if (const fs::path parent = (fs::path(folder) / ".").parent_path().parent_path(); !parent.empty())
    fs::create_directories(parent, error);
  if (!error && mkdir(folder.c_str(), 0700) == 0) return;  // conversations are no one else's
  if (!fs::is_directory(folder, error))
    throw Error(ErrorCode::io,
                fmt::format("the folder `{}` can't be made: give another one in KVASIR_SESSION_DIR", folder));
}

void delete_file(const std::string& path) {
  std::error_code error;  // without a name it is swept later
  if (!path.empty()) fs::remove(path, error);
}

}  // namespace

Session::Session(std::shared_ptr<SessionIndex> index, std::string name, std::unique_ptr<FileLock> lock)
    : index_(std::move(index)), name_(std::move(name)), lock_(std::move(lock)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session::~Session() {
  if (lock_) lock_->remove_file();
}

std::optional<SessionInfo> Session::info() const {
  return index_->find(name_);
}

RestoredSequence Session::restore(Cache& cache, const std::string& model) const {
  const auto saved = info();
  if (!saved) no_session(name_);
  return restore_sequence(cache, saved->file, model);
}

void Session::save(const Cache& cache, SequenceId sequence, const SequenceRecord& record) {
  const FileLock saving(index_->store_lock(), FileLock::Kind::shared);
  SessionInfo info;
  info.name = name_;
  info.model = record.model;
  info.model_name = record.model_name;
  info.tokens = cache.length(sequence);
  info.file = index_->fresh_snapshot();
  info.bytes = save_sequence(cache, sequence, record, info.file);
  info.changed =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  delete_file(index_->put(info));
}

SessionStore::SessionStore(const std::string& folder) {
  make_folder(folder);
  index_ = std::make_shared<SessionIndex>(folder);
  index_->sweep();
}

Session SessionStore::open(const std::string& name) {
  return Session(index_, name, std::make_unique<FileLock>(take_name(*index_, name)));
}

std::vector<SessionInfo> SessionStore::list() const {
  return index_->list();
}

SessionInfo SessionStore::find(const std::string& name) const {
  check_name(name);
  auto info = index_->find(name);
  if (!info) no_session(name);
  return std::move(*info);
}

void SessionStore::fork(const std::string& name, const std::string& to) {
  find(name);
  FileLock lock = take_name(*index_, to);
  const bool fresh = index_->fork(name, to);
  lock.remove_file();
  if (!fresh)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is a session `{}` already: choose another name, or remove that one first", to));
}

void SessionStore::remove(const std::string& name) {
  find(name);
  FileLock lock = take_name(*index_, name);
  delete_file(index_->remove(name));
  lock.remove_file();
}

}  // namespace kvasir
