// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Sessions by name: saved, listed, forked, removed; by two processes; by one that is killed at any moment.
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/random.h"
#include "snapshot_fixture.h"

namespace kvasir {
namespace {

namespace fs = std::filesystem;

class SessionStoreTest : public testing::Test {
 protected:
  SessionStoreTest() : stream_(small_layer(4, 2, 64), 400, 3), cache_(make()) {
    short_ = cache_.create();
    stream_.feed(cache_, short_, 0, 100, all_levels().back());
    long_ = cache_.create();
    stream_.feed(cache_, long_, 0, 400, all_levels().back());
  }
  Cache make() const { return one_layer_cache(stream_.layer, "turbo3.5", 16, 64); }
  size_t snapshots() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      count += entry.path().filename().string().starts_with("s-");
    return count;
  }
  static void expect_error(ErrorCode code, const std::string& what, const std::function<void()>& act) {
    try {
      act();
      ADD_FAILURE() << "no error: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
  // Runs `act` in a child process and returns its exit status.
  static int in_child(const std::function<void()>& act) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        act();
      } catch (const Error&) {
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path().string();
  const Stream stream_;
  Cache cache_;
  SequenceId short_, long_;
};

TEST_F(SessionStoreTest, SavesListsForksRemoves) {
  SessionStore store(path_);
  EXPECT_TRUE(store.list().empty());
  {
    Session session = store.open("first one");
    EXPECT_FALSE(session.info());
    expect_error(ErrorCode::not_found, "first one", [&] { session.restore(cache_, "model-1"); });
    session.save(cache_, short_, record_of(100));
    EXPECT_EQ(session.info()->tokens, 100);
    session.save(cache_, long_, record_of(400));
    EXPECT_EQ(snapshots(), 1u);
  }
  ASSERT_EQ(store.list().size(), 1u);
  const SessionInfo info = store.list()[0];
  EXPECT_EQ(info.name, "first one");
  EXPECT_EQ(info.tokens, 400);
  EXPECT_EQ(info.model, "model-1");
  EXPECT_EQ(info.model_name, "a model");
  EXPECT_EQ(info.bytes, fs::file_size(info.file));
  EXPECT_NEAR(double(info.changed), double(std::time(nullptr)), 5);

  store.fork("first one", "a");
  EXPECT_EQ(store.list().size(), 2u);
  EXPECT_EQ(store.list()[0].name, "a");
  EXPECT_EQ(snapshots(), 1u);
  expect_error(ErrorCode::invalid_argument, "already", [&] { store.fork("first one", "a"); });
  expect_error(ErrorCode::not_found, "`none`", [&] { store.fork("none", "b"); });
  Session fork = store.open("a");
  Cache other = make();
  const RestoredSequence restored = fork.restore(other, "model-1");
  EXPECT_EQ(restored.record.tokens, record_of(400).tokens);
  fork.save(cache_, short_, record_of(100));
  EXPECT_EQ(snapshots(), 2u);
  EXPECT_EQ(store.find("first one").tokens, 400);
  EXPECT_EQ(store.find("a").tokens, 100);
  store.remove("first one");
  EXPECT_EQ(snapshots(), 1u);
  EXPECT_EQ(page_bytes(other, restored.sequence), page_bytes(cache_, long_));  // its file is gone, the mapping isn't
  expect_error(ErrorCode::not_found, "first one", [&] { store.remove("first one"); });
  expect_error(ErrorCode::not_found, "first one", [&] { store.find("first one"); });
}

TEST_F(SessionStoreTest, PartsSwitchTogether) {
  SessionStore store(path_);
  const SequenceId empty = cache_.create();
  {
    Session session = store.open("x");
    std::vector<SessionPart> parts = {{short_, {}}, {long_, {}}};
    session.save(cache_, empty, record_of(0), parts);
    const SessionInfo info = *session.info();
    EXPECT_EQ(snapshots(), 3u);
    EXPECT_EQ(info.tokens, 400);
    EXPECT_EQ(info.bytes, fs::file_size(info.file) + fs::file_size(info.parts[0]) + fs::file_size(info.parts[1]));
    EXPECT_EQ(parts[0].file, info.parts[0]);
    // One is kept, one written, one more.
    parts[0].file.clear();
    parts.push_back({short_, {}});
    session.save(cache_, empty, record_of(0), parts);
    EXPECT_EQ(snapshots(), 4u);
    EXPECT_NE(session.info()->parts[0], info.parts[0]);
    EXPECT_EQ(session.info()->parts[1], info.parts[1]);
    parts[0].file = info.parts[0];
    expect_error(ErrorCode::invalid_argument, "no part", [&] { session.save(cache_, empty, record_of(0), parts); });
  }
  SessionStore again(path_);  // sweeps what that left
  EXPECT_EQ(snapshots(), 4u);
  again.fork("x", "y");
  {
    Session session = again.open("y");
    const std::vector<std::string> files = session.info()->parts;
    std::vector<SessionPart> parts = {{short_, files[2]}};
    session.save(cache_, empty, record_of(0), parts);
    EXPECT_EQ(snapshots(), 5u) << "the fork's own record";
    again.remove("x");
    EXPECT_EQ(snapshots(), 2u);
    Cache other = make();
    EXPECT_EQ(page_bytes(other, restore_sequence(other, session.info()->parts[0], "model-1").sequence),
              page_bytes(cache_, short_));
    session.save(cache_, short_, record_of(100));
    EXPECT_TRUE(session.info()->parts.empty());
  }
  EXPECT_EQ(snapshots(), 1u);
}

TEST_F(SessionStoreTest, Names) {
  SessionStore store(path_);
  for (const std::string& bad : {std::string(), std::string("a/b"), std::string("a\nb"), std::string("\0x", 2),
                                 std::string("\x7f"), std::string(201, 'x'), std::string("\xff\xfe")}) {
    expect_error(ErrorCode::invalid_argument, "1 to 200 bytes", [&] { store.open(bad); });
    expect_error(ErrorCode::invalid_argument, "1 to 200 bytes", [&] { store.remove(bad); });
  }
  for (const std::string& good : {std::string("."), std::string(".."), std::string("it's \"; DROP TABLE sessions"),
                                  std::string(200, 'x'), std::string("Größe 大"), std::string("-h")}) {
    store.open(good).save(cache_, short_, record_of(100, good));
    EXPECT_EQ(store.open(good).restore(cache_, "model-1").record.data, good);
  }
  EXPECT_EQ(store.list().size(), 6u);
}

TEST_F(SessionStoreTest, OneOwnerAtATime) {
  SessionStore store(path_);
  store.open("x").save(cache_, short_, record_of(100));
  Session mine = store.open("x");
  expect_error(ErrorCode::io, "in use", [&] { store.open("x"); });
  expect_error(ErrorCode::io, "in use", [&] { store.remove("x"); });
  EXPECT_EQ(in_child([&] { SessionStore(path_).open("x"); }), 1);
  EXPECT_EQ(in_child([&] { SessionStore(path_).open("y").save(cache_, short_, record_of(100)); }), 0);
  EXPECT_EQ(in_child([&] { SessionStore(path_).fork("x", "z"); }), 0);  // what was saved last is whole
  EXPECT_EQ(store.list().size(), 3u);
  { Session gone = std::move(mine); }
  EXPECT_EQ(in_child([&] { SessionStore(path_).open("x"); }), 0);
}

TEST_F(SessionStoreTest, ProcessesSaveAtTheSameTime) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      int status = 0;
      try {
        for (int round = 0; round < 15; ++round) {
          SessionStore store(path_);  // sweeps, each time
          store.open("mine " + std::to_string(i))
              .save(cache_, round % 2 ? short_ : long_, record_of(round % 2 ? 100 : 400));
          store.open("mine " + std::to_string(i)).restore(cache_, "model-1");
        }
      } catch (const Error& error) {
        fprintf(stderr, "%s\n", error.what());
        status = 1;
      }
      _exit(status);
    }
  }
  for (pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(SessionStore(path_).list().size(), 4u);
  EXPECT_EQ(snapshots(), 4u);
}

// A process saves one sequence and another in turns, and is killed after a random time. Whatever the moment, the next
// one finds one of the two, whole, and nothing else in the folder.
TEST_F(SessionStoreTest, KilledAtAnyMoment) {
  const auto pages_short = page_bytes(cache_, short_), pages_long = page_bytes(cache_, long_);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) SessionStore(path_).open("x").save(cache_, short_, record_of(100));
  const auto four_saves =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  SplitMix random(1);
  int with_orphans = 0, changed = 0;
  bool is_long = false;
  for (int round = 0; round < 200; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        SessionStore store(path_);
        Session session = store.open("x");
        for (bool more = !is_long;; more = !more)
          session.save(cache_, more ? long_ : short_, record_of(more ? 400 : 100));
      } catch (const Error& error) {
        fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random.below(uint64_t(four_saves.count()))));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";

    with_orphans += snapshots() > 1;
    SessionStore store(path_);
    ASSERT_EQ(snapshots(), 1u) << "round " << round;
    Cache other = make();
    const RestoredSequence found = store.open("x").restore(other, "model-1");
    changed += is_long != (found.record.tokens.size() == 400);
    is_long = found.record.tokens.size() == 400;
    ASSERT_EQ(found.record.tokens, record_of(is_long ? 400 : 100).tokens);
    ASSERT_EQ(page_bytes(other, found.sequence), is_long ? pages_long : pages_short);
    ASSERT_EQ(store.list().size(), 1u);
    ASSERT_EQ(store.find("x").tokens, int64_t(found.record.tokens.size()));
  }
  RecordProperty("with_orphans", with_orphans);
  RecordProperty("changed", changed);
  // The test would show nothing if every kill fell between two saves, or before the first was done.
  EXPECT_GT(with_orphans, 5);
  EXPECT_GT(changed, 5);
}

TEST_F(SessionStoreTest, SweepsOnlyItsOwn) {
  SessionStore(path_).open("x").save(cache_, short_, record_of(100));
  const std::vector<std::string> orphans = {"s-0123456789abcdef.kvasir", "s-0123456789abcdee.kvasir.Ab3xYz"};
  const std::vector<std::string> others = {"s-notes.kvasir", "s-0123456789abcdef.kvasir.bak", "notes.txt",
                                           "s-0123456789abcdef.txt"};
  for (const auto& list : {orphans, others})
    for (const std::string& name : list) write_bytes(folder_.file(name), "x");
  SessionStore store(path_);
  for (const std::string& name : orphans) EXPECT_FALSE(fs::exists(folder_.file(name))) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_.file(name))) << name;
  store.open("x").restore(cache_, "model-1");
}

TEST_F(SessionStoreTest, IndexesThatAreDamagedOrForeign) {
  const std::string index = folder_.file("index.sqlite");
  const auto expect_untouched = [&](ErrorCode code, const std::string& what) {
    write_bytes(folder_.file("s-0123456789abcdef.kvasir"), "x");
    const std::string before = file_bytes(index);
    expect_error(code, what, [&] { SessionStore store(path_); });
    EXPECT_EQ(file_bytes(index), before);
    EXPECT_TRUE(fs::exists(folder_.file("s-0123456789abcdef.kvasir")));
    fs::remove(folder_.file("s-0123456789abcdef.kvasir"));
    fs::remove(index);
  };
  write_bytes(index, std::string(5000, 'x'));
  expect_untouched(ErrorCode::corrupt, index);

  const auto run = [&](const char* sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(index.c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  };
  run("CREATE TABLE bookmarks (url TEXT)");
  expect_untouched(ErrorCode::corrupt, "another program's");
  SessionStore(path_).open("x").save(cache_, short_, record_of(100));
  const std::string good = file_bytes(index);
  run("PRAGMA user_version = 9");
  expect_untouched(ErrorCode::unsupported, "version 9");
  write_bytes(index, good);
  run("ALTER TABLE sessions RENAME TO gone");
  expect_untouched(ErrorCode::corrupt, index);
  for (size_t first = 4096; first < good.size(); first += 4096) {
    std::string bytes = good;
    bytes.replace(first, 4096, 4096, '\x5a');
    write_bytes(index, bytes);
    expect_untouched(ErrorCode::corrupt, index);
  }
  write_bytes(index, good.substr(0, good.size() - 4096));
  expect_untouched(ErrorCode::corrupt, index);

  // An index that someone deleted: its snapshots aren't orphans. (An empty file is what is left of it.)
  EXPECT_EQ(snapshots(), 1u);
  expect_error(ErrorCode::corrupt, "no index", [&] { SessionStore store(path_); });
  EXPECT_EQ(snapshots(), 1u);

  // A snapshot that someone deleted.
  write_bytes(index, good);
  SessionStore store(path_);
  fs::remove(store.find("x").file);
  expect_error(ErrorCode::not_found, "doesn't exist", [&] { store.open("x").restore(cache_, "model-1"); });
  store.remove("x");
  EXPECT_TRUE(store.list().empty());
}

// Whatever a flipped bit does to the index, the snapshot stays: it opens and is right, or it is refused.
TEST_F(SessionStoreTest, AFlippedBitInTheIndex) {
  SessionStore(path_).open("x").save(cache_, short_, record_of(100));
  const std::string index = folder_.file("index.sqlite"), good = file_bytes(index);
  int refused = 0;
  for (size_t byte = 0; byte < good.size(); byte += 7) {
    std::string bytes = good;
    bytes[byte] = char(bytes[byte] ^ (1 << (byte % 8)));
    write_bytes(index, bytes);
    try {
      SessionStore store(path_);
      Cache other = make();
      EXPECT_EQ(store.open("x").restore(other, "model-1").record.tokens, record_of(100).tokens) << byte;
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(index), std::string::npos) << byte << " " << error.what();
    }
    ASSERT_EQ(snapshots(), 1u) << byte;
    fs::remove(folder_.file("index.sqlite-wal"));
    fs::remove(folder_.file("index.sqlite-shm"));
  }
  EXPECT_GT(refused, 20);
}

TEST_F(SessionStoreTest, FoldersThatCannotBe) {
  write_bytes(folder_.file("file"), "x");
  expect_error(ErrorCode::io, "KVASIR_SESSION_DIR", [&] { SessionStore store(folder_.file("file")); });
  expect_error(ErrorCode::io, "KVASIR_SESSION_DIR", [&] { SessionStore store(folder_.file("file") + "/deeper"); });
  SessionStore store(folder_.file("new/deep/folder/"));
  EXPECT_EQ(fs::status(folder_.file("new/deep/folder")).permissions() & fs::perms::others_all, fs::perms::none);
}

}  // namespace
}  // namespace kvasir
