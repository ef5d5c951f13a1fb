// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cache/session_index.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "base/checksum.h"
#include "base/file_lock.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

namespace fs = std::filesystem;

constexpr int kApplicationId = 0x4b765373;  // "KvSs"
constexpr int kSchemaVersion = 2;
constexpr int kBusyMilliseconds = 10000;

// The folder's sync on every commit (EXTRA) is what makes the order "snapshot, then name" hold through a power cut.
constexpr const char* kSettings = "PRAGMA synchronous = EXTRA";
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS sessions (name TEXT PRIMARY KEY, file TEXT NOT NULL, model TEXT NOT NULL,"
    " model_name TEXT NOT NULL, tokens INTEGER NOT NULL, bytes INTEGER NOT NULL, changed INTEGER NOT NULL,"
    " parts TEXT NOT NULL, xxh3 TEXT NOT NULL) WITHOUT ROWID";
constexpr const char* kColumns = "name, file, model, model_name, tokens, bytes, changed, parts, xxh3";

std::string file_name(const std::string& path) {
  return fs::path(path).filename().string();
}

// Names of files, which have no spaces.
std::string parts_text(const SessionInfo& info) {
  std::string text;
  for (const std::string& part : info.parts) text += (text.empty() ? "" : " ") + file_name(part);
  return text;
}

std::vector<std::string> files_of(const SessionInfo& info) {
  std::vector<std::string> files = info.parts;
  files.push_back(info.file);
  return files;
}

// s-<16 hex>.kvasir, or that with .<6 letters and digits> while it is written (base/replaced_file.h).
bool is_snapshot(std::string_view name) {
  constexpr std::string_view kFirst = "s-", kLast = ".kvasir";
  constexpr size_t kDigits = 16, kTemporary = 7;
  const size_t whole = kFirst.size() + kDigits + kLast.size();
  if (name.size() != whole && name.size() != whole + kTemporary) return false;
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0; };
  const std::string_view digits = name.substr(kFirst.size(), kDigits), rest = name.substr(whole);
  return name.starts_with(kFirst) && std::all_of(digits.begin(), digits.end(), hex) &&
         name.substr(kFirst.size() + kDigits, kLast.size()) == kLast &&
         (rest.empty() || (rest[0] == '.' && std::all_of(rest.begin() + 1, rest.end(), letter)));
}

// SQLite notices damage to its own structure, not to what rows say; and a file whose name were damaged here would look
// like an orphan.
std::string row_checksum(const SessionInfo& info) {
  const std::string text = fmt::format("{}/{}/{}/{}/{}/{}/{}/{}", info.name, file_name(info.file), info.model,
                                       info.model_name, info.tokens, info.bytes, info.changed, parts_text(info));
  return fmt::format("{:016x}", checksum(std::as_bytes(std::span(text))));
}

}  // namespace

class SessionIndex::Statement {
 public:
  Statement(const SessionIndex& index, const std::string& sql) : index_(index) {
    if (sqlite3_prepare_v2(index.database_, sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) index.fail("read");
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const std::string& text) {
    sqlite3_bind_text(statement_, ++bound_, text.data(), int(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(int64_t number) {
    sqlite3_bind_int64(statement_, ++bound_, number);
    return *this;
  }
  bool next() {
    const int status = sqlite3_step(statement_);
    if (status != SQLITE_ROW && status != SQLITE_DONE) index_.fail("read or written");
    return status == SQLITE_ROW;
  }
  int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes ? std::string(bytes, size_t(sqlite3_column_bytes(statement_, column))) : std::string();
  }

 private:
  const SessionIndex& index_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

SessionIndex::SessionIndex(std::string folder) : folder_(std::move(folder)) {
  open_database();
  try {
    check_ours();
    execute(kSettings);
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

SessionIndex::~SessionIndex() {
  sqlite3_close(database_);
}

void SessionIndex::open_database() {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(path_of("index.sqlite").c_str(), &database_, flags, nullptr) != SQLITE_OK) {
    const std::string reason = database_ ? sqlite3_errmsg(database_) : "no memory";
    sqlite3_close(database_);
    throw Error(ErrorCode::io, fmt::format("`{}` can't be opened: {}; give another folder in KVASIR_SESSION_DIR",
                                           path_of("index.sqlite"), reason));
  }
  sqlite3_busy_timeout(database_, kBusyMilliseconds);
}

// Before anything is written: an index of ours that is whole, or an empty file to become one.
void SessionIndex::check_ours() {
  const auto number = [&](const char* sql) {
    Statement statement(*this, sql);
    return statement.next() ? statement.number(0) : 0;
  };
  if (number("PRAGMA application_id") != kApplicationId) {
    transaction([&] {  // another process may be at the same
      const int64_t application = number("PRAGMA application_id");
      if (application == kApplicationId) return;
      if (application != 0 || number("SELECT count(*) FROM sqlite_master") != 0)
        throw Error(ErrorCode::corrupt, fmt::format("`{}` is another program's database: give another folder in "
                                                    "KVASIR_SESSION_DIR",
                                                    path_of("index.sqlite")));
      // Without its index every snapshot would look like a crash's leaving.
      if (!snapshots().empty())
        throw Error(ErrorCode::corrupt,
                    fmt::format("the folder `{}` has snapshots of sessions but no index of them: put its index.sqlite "
                                "back, or give another folder in KVASIR_SESSION_DIR",
                                folder_));
      execute(kSchema);
      execute(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str());
      execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str());
    });
  }
  if (const int64_t version = number("PRAGMA user_version"); version != kSchemaVersion)
    throw Error(ErrorCode::unsupported,
                fmt::format("`{}` has version {}, this program knows {}: use the newer program, or another folder in "
                            "KVASIR_SESSION_DIR",
                            path_of("index.sqlite"), version, kSchemaVersion));
  Statement check(*this, "PRAGMA integrity_check(1)");
  if (!check.next() || check.text(0) != "ok")
    throw Error(ErrorCode::corrupt,
                fmt::format("`{}` is damaged ({}): repair it with SQLite's tools, or move its folder "
                            "away to begin a new one",
                            path_of("index.sqlite"), check.text(0)));
  // A name that became a blob reads the same, but is never found.
  Statement rows(*this, fmt::format("SELECT {}, typeof(name) FROM sessions", kColumns));
  while (rows.next())
    if (const SessionInfo info = row(rows); row_checksum(info) != rows.text(8) || rows.text(9) != "text")
      throw Error(ErrorCode::corrupt,
                  fmt::format("`{}` is damaged in the row of session `{}`: repair it with SQLite's tools, or move its "
                              "folder away to begin a new one",
                              path_of("index.sqlite"), info.name));
}

void SessionIndex::fail(const char* doing) const {
  const int status = sqlite3_errcode(database_);
  const bool damaged = status == SQLITE_NOTADB || status == SQLITE_CORRUPT || status == SQLITE_ERROR;
  if (damaged)
    throw Error(ErrorCode::corrupt,
                fmt::format("`{}` is damaged or another program's ({}): repair it with SQLite's tools, or give another "
                            "folder in KVASIR_SESSION_DIR",
                            path_of("index.sqlite"), sqlite3_errmsg(database_)));
  throw Error(ErrorCode::io,
              fmt::format("`{}` can't be {}: {}", path_of("index.sqlite"), doing, sqlite3_errmsg(database_)));
}

void SessionIndex::execute(const char* sql) const {
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("written");
}

void SessionIndex::transaction(const std::function<void()>& change) const {
  execute("BEGIN IMMEDIATE");
  try {
    change();
    execute("COMMIT");
  } catch (...) {
    sqlite3_exec(database_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

SessionInfo SessionIndex::row(const Statement& statement) const {
  SessionInfo info;
  info.name = statement.text(0);
  info.file = path_of(statement.text(1));
  info.model = statement.text(2);
  info.model_name = statement.text(3);
  info.tokens = statement.number(4);
  info.bytes = uint64_t(statement.number(5));
  info.changed = statement.number(6);
  std::istringstream parts(statement.text(7));
  for (std::string part; parts >> part;) info.parts.push_back(path_of(part));
  return info;
}

std::optional<SessionInfo> SessionIndex::find(const std::string& name) const {
  Statement statement(*this, fmt::format("SELECT {} FROM sessions WHERE name = ?", kColumns));
  if (!statement.bind(name).next()) return std::nullopt;
  return row(statement);
}

std::vector<SessionInfo> SessionIndex::list() const {
  std::vector<SessionInfo> sessions;
  Statement statement(*this, fmt::format("SELECT {} FROM sessions ORDER BY name", kColumns));
  while (statement.next()) sessions.push_back(row(statement));
  return sessions;
}

void SessionIndex::write_row(const SessionInfo& info) const {
  Statement(*this, fmt::format("INSERT OR REPLACE INTO sessions ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", kColumns))
      .bind(info.name)
      .bind(file_name(info.file))
      .bind(info.model)
      .bind(info.model_name)
      .bind(info.tokens)
      .bind(int64_t(info.bytes))
      .bind(info.changed)
      .bind(parts_text(info))
      .bind(row_checksum(info))
      .next();
}

std::set<std::string> SessionIndex::named() const {
  std::set<std::string> paths;
  for (const SessionInfo& info : list())
    for (std::string& file : files_of(info)) paths.insert(std::move(file));
  return paths;
}

std::vector<std::string> SessionIndex::unnamed(const std::optional<SessionInfo>& before) const {
  std::vector<std::string> orphans;
  if (!before) return orphans;
  const std::set<std::string> others = named();
  for (const std::string& file : files_of(*before))
    if (!others.contains(file)) orphans.push_back(file);
  return orphans;
}

std::vector<std::string> SessionIndex::put(const SessionInfo& info) {
  std::vector<std::string> orphans;
  transaction([&] {
    const auto before = find(info.name);
    write_row(info);
    orphans = unnamed(before);
  });
  return orphans;
}

bool SessionIndex::fork(const std::string& name, const std::string& to) {
  bool done = false;
  transaction([&] {
    auto info = find(name);
    if (!info || find(to)) return;
    info->name = to;
    write_row(*info);
    done = true;
  });
  return done;
}

std::vector<std::string> SessionIndex::remove(const std::string& name) {
  std::vector<std::string> orphans;
  transaction([&] {
    const auto before = find(name);
    Statement(*this, "DELETE FROM sessions WHERE name = ?").bind(name).next();
    orphans = unnamed(before);
  });
  return orphans;
}

std::vector<fs::path> SessionIndex::snapshots() const {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (is_snapshot(entry.path().filename().string())) found.push_back(entry.path());
  return found;
}

void SessionIndex::sweep() const {
  const auto lock = FileLock::try_lock(store_lock(), FileLock::Kind::exclusive);
  if (!lock) return;
  const std::set<std::string> kept = named();
  std::error_code error;  // what can't be deleted now is found again
  for (const fs::path& path : snapshots())
    if (!kept.contains(path_of(path.filename().string()))) fs::remove(path, error);
}

std::string SessionIndex::fresh_snapshot() const {
  std::random_device random;
  for (;;) {
    const uint64_t number = uint64_t(random()) << 32 | random();
    std::string path = path_of(fmt::format("s-{:016x}.kvasir", number));
    if (!fs::exists(path)) return path;
  }
}

std::string SessionIndex::session_lock(const std::string& name) const {
  return path_of(fmt::format("l-{:016x}.lock", checksum(std::as_bytes(std::span(name)))));
}

std::string SessionIndex::store_lock() const {
  return path_of("store.lock");
}

}  // namespace kvasir
