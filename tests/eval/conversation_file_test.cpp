// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/conversation_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "episode/segments.h"
#include "kvasir/error.h"
#include "tests/base/file_bytes.h"
#include "tests/base/temporary_folder.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

Json turn(const std::string& speaker, const std::string& id, const std::string& text, const char* field = "text") {
  return {{"speaker", speaker}, {"dia_id", id}, {field, text}};
}

Json locomo() {
  Json conversation = {{"speaker_a", "Ada"},
                       {"speaker_b", "Ben"},
                       {"session_10", Json::array({turn("Ada", "D10:1", "Tenth.")})},
                       {"session_10_date_time", "9:00 am on 2 July, 2023"},
                       {"session_2", Json::array({turn("Ben", "D2:1", "Second."), turn("Ada", "D2:2", "Yes.")})},
                       {"session_2_date_time", "8:00 am on 1 June, 2023"},
                       {"session_3", Json::array()},
                       {"session_3_date_time", "never"},
                       {"session_11_date_time", "never"}};
  conversation["session_2"][1]["blip_caption"] = "a photo of a kite";
  const Json questions = {
      {{"question", "Which year?"}, {"answer", 2022}, {"category", 2}, {"evidence", {"D2:1; D10:1", "D2:2"}}},
      {{"question", "What did Ada share?"}, {"answer", "a kite"}, {"category", 4}, {"evidence", {"D2:2"}}},
      {{"question", "Which boat?"}, {"category", 5}, {"adversarial_answer", "a ketch"}, {"evidence", Json::array()}}};
  return {{"sample_id", "conv-1"}, {"conversation", conversation}, {"qa", questions}, {"event_summary", {{"x", 1}}}};
}

Json realtalk() {
  return {{"name", {{"speaker_1", "Cleo"}, {"speaker_2", "Dan"}}},
          {"session_1", Json::array({turn("Cleo", "D1:1", "Hello \u00e9.", "clean_text"),
                                     {{"speaker", "Dan"}, {"dia_id", "D1:2"}, {"img_url", Json::array({"x"})}}})},
          {"session_1_date_time", "29.12.2023, 22:42:04"},
          {"events_session_1", {{"Cleo", Json::array()}}},
          {"qa", Json::array(
                     {{{"question", "Who said hello?"}, {"answer", "Cleo"}, {"category", 1}, {"evidence", "D1:1"}}})}};
}

RecordedConversation read_one(const Json& object, bool adversarial = false) {
  ConversationReading reading;
  reading.keep_adversarial = adversarial;
  const auto all = parse_conversations(object.dump(), "folder/chat.json", reading);
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

ErrorCode refusal(const std::string& text) {
  try {
    parse_conversations(text, "chat.json");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("`chat.json`"), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "read: " << text.substr(0, 200);
  return ErrorCode::internal;
}

TEST(ConversationFile, Locomo) {
  const RecordedConversation chat = read_one(locomo());
  EXPECT_EQ(chat.format, ConversationFormat::locomo);
  EXPECT_EQ(chat.name, "conv-1");
  EXPECT_EQ(chat.speakers[0], "Ada");
  EXPECT_EQ(chat.speakers[1], "Ben");
  ASSERT_EQ(chat.sessions.size(), 2u);
  EXPECT_EQ(chat.sessions[0].number, 2);
  EXPECT_EQ(chat.sessions[0].date, "8:00 am on 1 June, 2023");
  EXPECT_EQ(chat.sessions[0].turns[1].caption, "a photo of a kite");
  EXPECT_EQ(chat.sessions[1].number, 10);
  EXPECT_EQ(chat.sessions[1].turns[0].dia_id, "D10:1");
  ASSERT_EQ(chat.questions.size(), 2u);
  EXPECT_EQ(chat.questions[0].answer, "2022");
  EXPECT_EQ(chat.questions[0].evidence, (std::vector<std::string>{"D2:1", "D10:1", "D2:2"}));
  EXPECT_EQ(transcript_of(chat), (Transcript{{"Ben", "Second."}, {"Ada", "Yes."}, {"Ada", "Tenth."}}));
  const std::string text = history_text(chat);
  EXPECT_NE(text.find("Ada and Ben"), std::string::npos);
  EXPECT_NE(
      text.find("\nDATE: 8:00 am on 1 June, 2023\nBen said, \"Second.\"\nAda said, \"Yes.\" and shared a photo of a "
                "kite\n\nDATE: 9:00 am on 2 July, 2023\nAda said, \"Tenth.\"\n"),
      std::string::npos)
      << text;
}

TEST(ConversationFile, AdversarialQuestionsOnRequest) {
  const RecordedConversation chat = read_one(locomo(), true);
  ASSERT_EQ(chat.questions.size(), 3u);
  EXPECT_EQ(chat.questions[2].category, 5);
  EXPECT_EQ(chat.questions[2].answer, "a ketch");
}

TEST(ConversationFile, Realtalk) {
  const RecordedConversation chat = read_one(realtalk());
  EXPECT_EQ(chat.format, ConversationFormat::realtalk);
  EXPECT_EQ(chat.name, "chat");
  EXPECT_EQ(chat.speakers[1], "Dan");
  ASSERT_EQ(chat.sessions.size(), 1u);
  EXPECT_EQ(chat.sessions[0].date, "29.12.2023, 22:42:04");
  EXPECT_EQ(transcript_of(chat), (Transcript{{"Cleo", "Hello \u00e9."}, {"Dan", ""}}));
  ASSERT_EQ(chat.questions.size(), 1u);
  EXPECT_EQ(chat.questions[0].evidence, std::vector<std::string>{"D1:1"});
}

TEST(ConversationFile, ListsOfConversations) {
  const auto all = parse_conversations(Json::array({locomo(), realtalk()}).dump(), "ten.json");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "conv-1");
  EXPECT_EQ(all[1].name, "ten-2");
}

TEST(ConversationFile, OneUtteranceAndUnnamedSpeakers) {
  const Json one = {{"conversation", {{"session_1", Json::array({turn("Eve", "D1:1", "")})}}}};
  const RecordedConversation chat = read_one(one);
  EXPECT_EQ(chat.speakers[0], "Eve");
  EXPECT_EQ(chat.speakers[1], "");
  EXPECT_TRUE(chat.questions.empty());
  EXPECT_EQ(make_segments(transcript_of(chat)).size(), 1u);
  EXPECT_NE(history_text(chat).find("DATE: unknown\nEve said, \"\"\n"), std::string::npos);
}

TEST(ConversationFile, RefusesOtherLayouts) {
  Json older = locomo()["conversation"];
  older["session_2_summary"] = "They met.";
  EXPECT_EQ(refusal(older.dump()), ErrorCode::unsupported);
  EXPECT_EQ(refusal(R"({"a": 1})"), ErrorCode::unsupported);
  EXPECT_EQ(refusal("{}"), ErrorCode::unsupported);
}

TEST(ConversationFile, RefusesWhatIsBroken) {
  Json no_speaker = locomo(), no_text = locomo(), no_answer = locomo(), list_answer = locomo(), none = locomo();
  no_speaker["conversation"]["session_2"][0].erase("speaker");
  no_text["conversation"]["session_2"][0].erase("text");
  no_answer["qa"][1].erase("answer");
  list_answer["qa"][1]["answer"] = Json::array({1});
  none["conversation"] = {{"speaker_a", "Ada"}, {"session_1", Json::array()}};
  Json text_session = locomo(), text_turn = locomo(), odd_questions = locomo();
  text_session["conversation"]["session_2"] = "talk";
  text_turn["conversation"]["session_2"][0] = "talk";
  odd_questions["qa"] = 3;
  for (const Json& object : {no_speaker, no_text, no_answer, list_answer, none, text_session, text_turn, odd_questions})
    EXPECT_EQ(refusal(object.dump()), ErrorCode::corrupt);
  for (const char* text : {"", "[]", "3", "[3]", "null", "{\"conversation\": {", "not JSON at all"})
    EXPECT_EQ(refusal(text), ErrorCode::corrupt) << text;
  EXPECT_EQ(refusal("{\"conversation\": {\"speaker_a\": \"\xff\xfe\"}}"), ErrorCode::corrupt);
  try {
    parse_conversations("{\"conversation\": {\"speaker_a\": \"\xff\xfe\"}}", "chat.json");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("isn't UTF-8 (byte"), std::string::npos) << error.what();
  }
}

TEST(ConversationFile, EveryCutIsRefusedOrRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("chat.json");
  test::write_bytes(path, locomo().dump());
  EXPECT_EQ(read_conversations(path)[0].name, "conv-1");
  test::with_every_cut(path, 1, [&](size_t size) { EXPECT_THROW(read_conversations(path), Error) << size; });
  EXPECT_THROW(read_conversations(folder.file("none.json")), Error);
}

TEST(ConversationFile, LongOnesTakeLinearTime) {
  const auto seconds = [](int turns) {
    std::string text = "{\"conversation\": {\"session_1\": [";
    for (int i = 0; i < turns; ++i)
      text += std::string(i == 0 ? "" : ", ") + "{\"speaker\": \"" + (i % 2 == 0 ? "Ada" : "Ben") +
              "\", \"dia_id\": \"D1:1\", \"text\": \"" + std::string(200, 'x') + "\"}";
    text += "]}}";
    const auto start = std::chrono::steady_clock::now();
    const auto all = parse_conversations(text, "long.json");
    EXPECT_EQ(make_segments(transcript_of(all[0])).size(), size_t(turns) / 4);
    EXPECT_GT(history_text(all[0]).size(), size_t(turns) * 200);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_LT(seconds(200000), 30.0);  // 50 MB
}

}  // namespace
}  // namespace kvasir
