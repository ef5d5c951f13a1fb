// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/conversation_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/mapped_file.h"
#include "episode/segments.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

constexpr int kAdversarial = 5;

[[noreturn]] void corrupt(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::corrupt, fmt::format("`{}` {}; it takes a conversation of LoCoMo or RealTalk", file, what));
}

const Json* find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool is_object(const Json* value) {
  return value != nullptr && value->is_object();
}

// Empty where there is none.
std::string text_in(const Json& object, const char* name) {
  const Json* value = find(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// k of "session_k".
std::optional<int> session_number(std::string_view key) {
  constexpr std::string_view prefix = "session_";
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || end != key.data() + key.size() || number < 0) return std::nullopt;
  return number;
}

class Reader {
 public:
  Reader(std::string file, const ConversationReading& reading) : file_(std::move(file)), reading_(reading) {}

  RecordedConversation read(const Json& object, const std::string& name) const {
    if (!object.is_object()) corrupt(file_, "holds something that isn't a conversation");
    const Json* inner = find(object, "conversation");
    RecordedConversation result;
    result.name = name;
    if (is_object(inner)) {
      if (std::string id = text_in(object, "sample_id"); !id.empty()) result.name = std::move(id);
      result.speakers = {text_in(*inner, "speaker_a"), text_in(*inner, "speaker_b")};
      result.sessions = sessions(*inner, "text");
    } else {
      const Json* names = find(object, "name");
      if (!is_object(names)) refuse(object);
      result.format = ConversationFormat::realtalk;
      result.speakers = {text_in(*names, "speaker_1"), text_in(*names, "speaker_2")};
      result.sessions = sessions(object, "clean_text");
    }
    if (result.sessions.empty()) corrupt(file_, "holds no utterance");
    name_speakers(result);
    if (const Json* questions = find(object, "qa")) result.questions = this->questions(*questions);
    return result;
  }

 private:
  [[noreturn]] void refuse(const Json& object) const {
    for (const auto& [key, value] : object.items())
      if (session_number(key) && value.is_array())
        throw Error(ErrorCode::unsupported,
                    fmt::format("`{}` is laid out as LoCoMo once was, with its sessions at the top; it takes the newer "
                                "files, which have them under `conversation`",
                                file_));
    throw Error(ErrorCode::unsupported,
                fmt::format("`{}` has neither LoCoMo's `conversation` nor RealTalk's `name` and is of no data set that "
                            "can be read",
                            file_));
  }

  std::vector<ConversationSession> sessions(const Json& object, const char* text_field) const {
    std::map<int, ConversationSession> by_number;
    for (const auto& [key, value] : object.items()) {
      const std::optional<int> number = session_number(key);
      if (!number) continue;
      if (!value.is_array()) corrupt(file_, fmt::format("has a {} that is no list of turns", key));
      if (value.empty()) continue;
      ConversationSession session;
      session.number = *number;
      session.date = text_in(object, (key + "_date_time").c_str());
      session.turns.reserve(value.size());
      for (const Json& turn : value) session.turns.push_back(spoken(turn, text_field, key));
      by_number[*number] = std::move(session);
    }
    std::vector<ConversationSession> result;
    for (auto& [number, session] : by_number) result.push_back(std::move(session));
    return result;
  }

  SpokenTurn spoken(const Json& turn, const char* text_field, const std::string& session) const {
    if (!turn.is_object()) corrupt(file_, fmt::format("has a turn in {} that is no object", session));
    SpokenTurn result{text_in(turn, "speaker"), text_in(turn, text_field), text_in(turn, "dia_id"),
                      text_in(turn, "blip_caption")};
    if (result.speaker.empty()) corrupt(file_, fmt::format("has a turn in {} without `speaker`", session));
    // A picture may stand alone; a turn without any of the fields is of another layout.
    if (find(turn, text_field) == nullptr && result.caption.empty() && find(turn, "img_url") == nullptr)
      corrupt(file_, fmt::format("has a turn in {} without `{}`", session, text_field));
    return result;
  }

  // Speakers that the file doesn't name are those who speak.
  static void name_speakers(RecordedConversation& conversation) {
    auto& [first, second] = conversation.speakers;
    for (const ConversationSession& session : conversation.sessions)
      for (const SpokenTurn& turn : session.turns) {
        if (first.empty() && turn.speaker != second) first = turn.speaker;
        if (second.empty() && turn.speaker != first) second = turn.speaker;
        if (!first.empty() && !second.empty()) return;
      }
  }

  std::vector<ConversationQuestion> questions(const Json& list) const {
    if (!list.is_array()) corrupt(file_, "has a `qa` that is no list");
    std::vector<ConversationQuestion> result;
    for (size_t index = 0; index < list.size(); ++index) {
      const Json& item = list[index];
      if (!item.is_object()) corrupt(file_, fmt::format("has a question {} that is no object", index));
      const Json* category = find(item, "category");
      ConversationQuestion question;
      question.text = text_in(item, "question");
      if (category != nullptr && category->is_number_integer()) question.category = category->get<int>();
      const bool adversarial = question.category == kAdversarial;
      if (adversarial && !reading_.keep_adversarial) continue;
      const Json* answer = find(item, "answer");
      if (adversarial && answer == nullptr) answer = find(item, "adversarial_answer");
      if (answer != nullptr && !answer->is_null()) question.answer = answer_text(*answer, index);
      if (question.text.empty() || (question.answer.empty() && !adversarial))
        corrupt(file_, fmt::format("has a question {} without its text or answer", index));
      if (const Json* evidence = find(item, "evidence")) add_evidence(*evidence, question.evidence);
      result.push_back(std::move(question));
    }
    return result;
  }

  std::string answer_text(const Json& answer, size_t index) const {
    if (answer.is_string()) return answer.get<std::string>();
    if (answer.is_number() || answer.is_boolean()) return answer.dump();
    corrupt(file_, fmt::format("has an answer to question {} that is neither text nor a number", index));
  }

  // Some entries hold several ids.
  static void add_evidence(const Json& evidence, std::vector<std::string>& ids) {
    if (evidence.is_array())
      for (const Json& item : evidence) add_evidence(item, ids);
    if (!evidence.is_string()) return;
    const std::string& text = evidence.get_ref<const std::string&>();
    constexpr std::string_view kBetween = " ;,\t\n";
    for (size_t start = text.find_first_not_of(kBetween); start != std::string::npos;) {
      const size_t end = std::min(text.find_first_of(kBetween, start), text.size());
      ids.push_back(text.substr(start, end - start));
      start = text.find_first_not_of(kBetween, end);
    }
  }

  std::string file_;
  ConversationReading reading_;
};

Json parse(std::string_view text, const std::string& file) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const bool encoding = std::string_view(error.what()).find("UTF-8") != std::string_view::npos;
    corrupt(file, fmt::format("isn't {} (byte {})", encoding ? "UTF-8" : "JSON", error.byte));
  }
}

}  // namespace

std::vector<RecordedConversation> parse_conversations(std::string_view text, const std::string& name,
                                                      const ConversationReading& reading) {
  const Json parsed = parse(text, name);
  const Reader reader(name, reading);
  const std::string stem = std::filesystem::path(name).stem().string();
  std::vector<RecordedConversation> result;
  if (!parsed.is_array()) {
    result.push_back(reader.read(parsed, stem));
    return result;
  }
  for (const Json& item : parsed) result.push_back(reader.read(item, fmt::format("{}-{}", stem, result.size() + 1)));
  if (result.empty()) corrupt(name, "holds no conversation");
  return result;
}

std::vector<RecordedConversation> read_conversations(const std::string& path, const ConversationReading& reading) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  return parse_conversations({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, reading);
}

Transcript transcript_of(const RecordedConversation& conversation) {
  Transcript transcript;
  for (const ConversationSession& session : conversation.sessions)
    for (const SpokenTurn& turn : session.turns) transcript.push_back({turn.speaker, turn.text});
  return transcript;
}

HistoryPieces history_pieces(const RecordedConversation& conversation) {
  const auto& [first, second] = conversation.speakers;
  HistoryPieces pieces;
  pieces.opening = second.empty()
                       ? fmt::format("This is what {} said on several days, each part under its date.\n", first)
                       : fmt::format(
                             "{} and {} talked with each other on several days; each talk stands under its "
                             "date.\n",
                             first, second);
  for (const ConversationSession& session : conversation.sessions) {
    std::string text = fmt::format("\nDATE: {}\n", session.date.empty() ? "unknown" : session.date);
    for (const SpokenTurn& turn : session.turns) {
      text += spoken_line({turn.speaker, turn.text});
      if (!turn.caption.empty()) text.append(" and shared ").append(turn.caption);
      pieces.utterances.push_back(std::exchange(text, {}) + "\n");
    }
  }
  return pieces;
}

std::string history_text(const RecordedConversation& conversation) {
  HistoryPieces pieces = history_pieces(conversation);
  std::string text = std::move(pieces.opening);
  for (const std::string& utterance : pieces.utterances) text += utterance;
  return text;
}

}  // namespace kvasir
