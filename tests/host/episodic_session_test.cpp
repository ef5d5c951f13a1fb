// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/episodic_session.h"

#include <filesystem>

#include "host/model_encoder.h"
#include "kvasir/error.h"
#include "tests/host/chat_fixture.h"

namespace kvasir {
namespace {

namespace fs = std::filesystem;
using test::message;

class EpisodicSessionTest : public test::ChatFixture {
 protected:
  static EpisodicIdentity identity(int budget = 200) { return {"model-1", "tiny", {{"--budget", budget}}}; }
  std::vector<std::string> snapshots() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      if (entry.path().extension() == ".kvasir") names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  static size_t common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return size_t(std::count_if(
        a.begin(), a.end(), [&](const std::string& name) { return std::find(b.begin(), b.end(), name) != b.end(); }));
  }

  const std::string path_ = folder_.file("sessions");
};

TEST_F(EpisodicSessionTest, GoesOnAsIfItHadNeverStopped) {
  for (const std::string kv : {"f16", "turbo4"}) {
    Side host = side(kv);
    EpisodicChat whole(setup(host, options()), {"Be brief.", {}});
    SessionStore store(path_);
    for (int i = 0; i < 20; ++i) {
      const Said expected = say(whole, i == 14 ? "quantum chromodynamics" : message(i));
      Session session = store.open(kv);
      EpisodicSession kept(session);
      Side again = side(kv);  // another process
      const std::unique_ptr<EpisodicChat> chat =
          i == 0 ? std::make_unique<EpisodicChat>(setup(again, options()), EpisodicChatState{"Be brief.", {}})
                 : kept.restore(setup(again, options()), identity());
      EXPECT_EQ(chat->memory().tokens_read(), 0) << "nothing is read to go on";
      const Said said = say(*chat, i == 14 ? "quantum chromodynamics" : message(i));
      EXPECT_TRUE(said == expected) << kv << ", turn " << i;
      EXPECT_TRUE(said.question.episode.opened || (i != 0 && i != 14)) << "something new";
      EXPECT_EQ(said.question.episode.fed_tokens, expected.question.episode.fed_tokens);
      EXPECT_EQ(chat->memory().record(), whole.memory().record());
      const std::vector<std::string> parts = i > 0 ? session.info()->parts : std::vector<std::string>();
      kept.save(*chat, identity());
      EXPECT_EQ(session.info()->tokens, whole.memory().tokens());
      EXPECT_EQ(session.info()->parts.size(), whole.memory().episodes().size());
      // One episode is written in a turn, all after the past was clustered.
      const size_t written = session.info()->parts.size() - common(session.info()->parts, parts);
      EXPECT_EQ(written, said.question.clustered ? whole.memory().episodes().size() : 1u);
    }
    EXPECT_EQ(snapshots().size(), store.find(kv).parts.size() + 1);
    store.remove(kv);
    EXPECT_TRUE(snapshots().empty());
  }
}

TEST_F(EpisodicSessionTest, AnEncoderGoesOnToo) {
  const auto hidden = [&] {
    Side host = side("turbo4");
    host.encoder = make_hidden_state_encoder(model_, 1);
    return host;
  };
  Side host = hidden();
  EpisodicChat whole(setup(host, options()), {});
  for (int i = 0; i < 8; ++i) say(whole, message(i));
  EXPECT_FALSE(whole.memory().record().learned.empty());
  Session session = SessionStore(path_).open("a");
  EpisodicSession(session).save(whole, identity());
  Side again = hidden();
  EpisodicSession kept(session);
  const auto chat = kept.restore(setup(again, options()), identity());
  for (int i = 8; i < 11; ++i) {
    const Said expected = say(whole, message(i)), said = say(*chat, message(i));
    EXPECT_TRUE(said == expected) << i;
    EXPECT_EQ(said.question.episode.cosine, expected.question.episode.cosine);
  }
  EXPECT_EQ(chat->memory().record(), whole.memory().record());
  // Words can't take what hidden states have learned.
  kept.save(*chat, identity());
  Side words = side("turbo4");
  EXPECT_THROW(kept.restore(setup(words, options()), identity())->begin_turn("hello"), Error);
}

TEST_F(EpisodicSessionTest, BytesOnDiskAreBounded) {
  for (const char* kv : {"f16", "turbo2"}) {
    Side host = side(kv);
    EpisodicOptions choice = options(100);
    choice.episodes = 8;
    choice.most_bytes = 1'500'000;
    EpisodicChat chat(setup(host, choice), {});
    Session session = SessionStore(path_).open(kv);
    EpisodicSession kept(session);
    for (int i = 0; i < 14; ++i) {
      say(chat, message(i));
      kept.save(chat, identity());
      uint64_t bytes = 0;
      const SessionInfo info = *session.info();
      for (const std::string& part : info.parts) bytes += fs::file_size(part);
      EXPECT_LE(bytes, choice.most_bytes) << kv << ", turn " << i;
    }
    EXPECT_GT(session.info()->parts.size(), 1u);
  }
}

TEST_F(EpisodicSessionTest, ForksShareEpisodes) {
  Side host = side("turbo4");
  SessionStore store(path_);
  {
    EpisodicChat chat(setup(host, options()), {});
    Session session = store.open("a");
    EpisodicSession kept(session);
    for (int i = 0; i < 12; ++i) say(chat, message(i));
    kept.save(chat, identity());
  }
  store.fork("a", "b");
  const size_t files = snapshots().size();
  Session session = store.open("b");
  EpisodicSession kept(session);
  const auto chat = kept.restore(setup(host, options()), identity());
  say(*chat, message(0));
  kept.save(*chat, identity());
  EXPECT_EQ(snapshots().size(), files + 2) << "the record and one episode";
  EXPECT_LT(store.find("a").tokens, store.find("b").tokens);
  store.remove("a");
  EXPECT_EQ(snapshots().size(), store.find("b").parts.size() + 1);
  Side other = side("turbo4");
  EXPECT_EQ(kept.restore(setup(other, options()), identity())->memory().record(), chat->memory().record());
}

TEST_F(EpisodicSessionTest, RefusesWhatIsNotTheSame) {
  Side host = side("turbo4");
  SessionStore store(path_);
  Session session = store.open("a");
  EpisodicSession kept(session);
  EpisodicChat chat(setup(host, options()), {});
  for (int i = 0; i < 8; ++i) say(chat, message(i));
  kept.save(chat, identity());
  const auto refused = [&](Side& side, const EpisodicIdentity& who, const std::string& what) {
    const size_t before = side.answering->cache().size().total();
    try {
      kept.restore(setup(side, options()), who);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
    EXPECT_EQ(side.answering->cache().size().total(), before);
  };
  refused(host, identity(300), "--budget 200");
  EpisodicIdentity other = identity();
  other.model = "model-2";
  refused(host, other, "another model");
  Side f16 = side("f16");
  refused(f16, identity(), "--kv turbo4");
  const std::string part = session.info()->parts[1];
  fs::resize_file(part, fs::file_size(part) - 4096);
  refused(host, identity(), part);
  session.save(host.answering->cache(), chat.memory().sequence(0), {"model-1", "tiny", {}, {}});
  refused(host, identity(), "isn't kept in episodes");
  EXPECT_EQ(snapshots().size(), 1u);
}

}  // namespace
}  // namespace kvasir
