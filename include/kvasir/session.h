// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Compressed sequences on disk. A snapshot is one file that holds one sequence of a Cache as it is: packed pages byte
// for byte, 16-bit windows, page tables. A session store keeps snapshots under names. A restored sequence goes on as if
// it had never stopped: what is appended next gives the same output, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvasir/cache.h"

namespace kvasir {

// What a snapshot says of itself, and what its writer keeps in it.
struct SequenceRecord {
  std::string model;            // text that tells models and their weights apart; the reader has to say the same
  std::string model_name;       // for people
  std::vector<int32_t> tokens;  // what the sequence holds, one per position; or empty
  std::string data;             // the writer's own, any bytes
};

// Writes the sequence to `path`, through a temporary file that is synced and renamed: a crash at any byte leaves what
// was there or all of the new. Returns the file's bytes. The cache is only read; pages that a restore mapped are copied
// from their file, which may be `path` itself.
// Throws Error: invalid_argument (no such sequence; tokens that aren't as many as the sequence's; layers that differ in
// length, as in the middle of a batch), io.
uint64_t save_sequence(const Cache& cache, SequenceId sequence, const SequenceRecord& record, const std::string& path);

struct RestoredSequence {
  SequenceId sequence = 0;
  SequenceRecord record;
};

// A new sequence in `cache` as the file has it. The file is mapped and checked whole, every byte, before anything else;
// packed pages stay where they are in the mapping, shared with every fork, and windows are copied. The mapping lives as
// long as a page of it does; the file may be replaced or deleted meanwhile, but must not be changed in place.
//
// What counts against the pool's budget: windows, and whatever is appended later. Mapped pages don't, since the system
// may drop them and read them again; CacheSize::mapped counts them.
//
// Throws Error, and leaves the cache as it was: not_found, io; corrupt (damaged anywhere); unsupported (a newer
// format); invalid_argument (another model, geometry, codec, calibration or other windows: the message says what the
// file has and what the cache has); out_of_memory.
RestoredSequence restore_sequence(Cache& cache, const std::string& path, const std::string& model);

// What a snapshot holds, without a cache to restore it to. Checks all of the file. Throws as restore_sequence does for
// a file that can't be read.
struct SnapshotSummary {
  SequenceRecord record;
  int64_t length = 0;      // tokens
  uint64_t bytes = 0;      // of the file
  std::string key, value;  // CacheOptions' names when it was saved, without overrides and protections
  int sink = 0, recent = 0;
};
SnapshotSummary read_snapshot(const std::string& path);

// One line of a store's list.
struct SessionInfo {
  std::string name;
  std::string model, model_name;
  int64_t tokens = 0;
  uint64_t bytes = 0;   // of its snapshot; a fork shares it until either of the two is saved
  int64_t changed = 0;  // last save, seconds since 1970
  std::string file;     // path of its snapshot
};

class SessionIndex;
class FileLock;

// One name of a store, for this process alone as long as the object lives. Outlives its store, not its folder.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::string& name() const { return name_; }
  // What was saved last; empty if nothing ever was.
  std::optional<SessionInfo> info() const;
  // restore_sequence of what was saved last. Throws Error not_found if nothing was, and what restore_sequence throws.
  RestoredSequence restore(Cache& cache, const std::string& model) const;
  // A new snapshot, then one transaction that points the name to it, then the old file goes. A crash at any moment
  // leaves the old sequence or the new one, whole. Throws Error: what save_sequence throws; io; corrupt.
  void save(const Cache& cache, SequenceId sequence, const SequenceRecord& record);

 private:
  friend class SessionStore;
  Session(std::shared_ptr<SessionIndex> index, std::string name, std::unique_ptr<FileLock> lock);

  std::shared_ptr<SessionIndex> index_;
  std::string name_;
  std::unique_ptr<FileLock> lock_;
};

// A folder of sessions: snapshots, and an SQLite index that says which name has which. Several processes may use it at
// once, each name by one of them. Names have 1 to 200 bytes of UTF-8 without '/' and control characters.
class SessionStore {
 public:
  // Makes the folder if it isn't there, readable by its owner alone. Deletes snapshots that no name has any more, as a
  // crash can leave them, unless another process is saving just then.
  // Throws Error: io; corrupt for an index that is damaged, another program's, or gone from beside its snapshots;
  // unsupported for a newer one's. Nothing is touched then.
  explicit SessionStore(const std::string& folder);

  // Takes the name, whether anything was saved under it or not. Throws Error: invalid_argument (a name that can't be),
  // io (in use by another process or another Session of this one).
  Session open(const std::string& name);
  std::vector<SessionInfo> list() const;  // by name
  // Throws Error not_found, invalid_argument.
  SessionInfo find(const std::string& name) const;
  // A second name for what was last saved under `name`; nothing is copied. Throws Error: not_found, invalid_argument (a
  // name that can't be, or that is taken), io (`to` is in use).
  void fork(const std::string& name, const std::string& to);
  // Throws Error: not_found, invalid_argument, io (in use).
  void remove(const std::string& name);

 private:
  std::shared_ptr<SessionIndex> index_;
};

}  // namespace kvasir
