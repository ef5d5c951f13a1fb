// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/episodic_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cache/scoped_sequence.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

template <typename T>
Json packed(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

template <typename T>
std::vector<T> unpacked(const Json& binary) {
  const std::vector<uint8_t>& bytes = binary.get_binary();
  if (bytes.size() % sizeof(T) != 0) throw Error(ErrorCode::corrupt, "a list of numbers in a record is cut");
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Those of words are mostly zeros: places and values of the others where that is shorter.
Json packed_embedding(const std::vector<float>& x) {
  std::vector<uint32_t> places;
  std::vector<float> values;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == 0.0f) continue;
    places.push_back(uint32_t(i));
    values.push_back(x[i]);
  }
  if (2 * values.size() >= x.size()) return {{"x", packed(x)}};
  return {{"dims", x.size()}, {"at", packed(places)}, {"x", packed(values)}};
}

std::vector<float> unpacked_embedding(const Json& packed) {
  std::vector<float> values = unpacked<float>(packed.at("x"));
  if (!packed.contains("at")) return values;
  const std::vector<uint32_t> places = unpacked<uint32_t>(packed.at("at"));
  std::vector<float> x(packed.at("dims").get<size_t>(), 0.0f);
  for (size_t i = 0; i < places.size(); ++i) x.at(places[i]) = values.at(i);
  return x;
}

Json record_json(const EpisodicChat& chat) {
  const MemoryRecord& record = chat.memory().record();
  Json turns = Json::array(), segments = Json::array(), embeddings = Json::array();
  for (const MemoryTurn& turn : record.turns)
    turns.push_back(
        {{"speaker", turn.utterance.speaker}, {"text", turn.utterance.text}, {"tokens", packed(turn.tokens)}});
  for (const TranscriptSegment& segment : record.segments)
    segments.push_back({{"first", segment.first}, {"count", segment.count}, {"text", segment.text}});
  for (const std::vector<float>& x : chat.memory().episodes().embeddings()) embeddings.push_back(packed_embedding(x));
  return {{"kind", kEpisodesKind},
          {"system", chat.state().system},
          {"pending", packed(chat.state().pending)},
          {"opening", packed(record.opening)},
          {"turns", std::move(turns)},
          {"segments", std::move(segments)},
          {"episode_of_segment", record.episode_of_segment},
          {"segmented_turns", record.segmented_turns},
          {"learned_segments", record.learned_segments},
          {"learned", packed(record.learned)},
          {"clustered_tokens", record.clustered_tokens},
          {"embeddings", std::move(embeddings)}};
}

MemoryRecord record_of(const Json& data) {
  MemoryRecord record;
  record.opening = unpacked<int32_t>(data.at("opening"));
  for (const Json& turn : data.at("turns"))
    record.turns.push_back({{turn.at("speaker").get<std::string>(), turn.at("text").get<std::string>()},
                            unpacked<int32_t>(turn.at("tokens"))});
  for (const Json& segment : data.at("segments"))
    record.segments.push_back(
        {segment.at("first").get<size_t>(), segment.at("count").get<size_t>(), segment.at("text").get<std::string>()});
  record.episode_of_segment = data.at("episode_of_segment").get<std::vector<int>>();
  record.segmented_turns = data.at("segmented_turns").get<size_t>();
  record.learned_segments = data.at("learned_segments").get<size_t>();
  record.learned = unpacked<float>(data.at("learned"));
  record.clustered_tokens = data.at("clustered_tokens").get<int64_t>();
  return record;
}

void require_settings(const std::string& name, const Json& saved, const Json& asked) {
  for (const auto& [flag, value] : asked.items())
    if (!saved.contains(flag) || saved.at(flag) != value)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the session `{}` is kept with {} {}, and this is {}: give the same, or another --session", name,
                      flag, saved.value(flag, Json()).dump(), value.dump()));
}

Json episodes_data(const std::string& name, const SequenceRecord& record) {
  Json data = Json::from_cbor(record.data, true, false);
  if (!data.is_object() || data.value("kind", "") != kEpisodesKind)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the session `{}` isn't kept in episodes: leave out --memory episodes, or give another "
                            "--session",
                            name));
  return data;
}

}  // namespace

std::unique_ptr<EpisodicChat> EpisodicSession::restore(const EpisodicSetup& setup, const EpisodicIdentity& identity) {
  Cache& cache = setup.answering.cache();
  const RestoredSequence first = session_.restore(cache, identity.model);
  cache.remove(first.sequence);
  const Json data = episodes_data(session_.name(), first.record);
  const std::vector<std::string> parts = session_.info()->parts;
  std::vector<SequenceId> sequences;
  try {
    require_settings(session_.name(), data.at("settings"), identity.settings);
    for (const std::string& part : parts) sequences.push_back(restore_sequence(cache, part, identity.model).sequence);
    std::vector<std::vector<float>> embeddings;
    for (const Json& packed : data.at("embeddings")) embeddings.push_back(unpacked_embedding(packed));
    auto chat = std::make_unique<EpisodicChat>(
        setup, EpisodicChatState{data.at("system").get<std::string>(), unpacked<int32_t>(data.at("pending"))},
        record_of(data), std::move(embeddings), sequences);
    files_.clear();
    for (size_t i = 0; i < parts.size(); ++i) files_[chat->memory().revision(int(i))] = parts[i];
    return chat;
  } catch (const std::exception& error) {
    for (const SequenceId sequence : sequences) cache.remove(sequence);
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;
    throw Error(ErrorCode::corrupt,
                fmt::format("the record of session `{}` can't be read: {}", session_.name(), error.what()));
  }
}

bool EpisodicSession::save(const EpisodicChat& chat, const EpisodicIdentity& identity) {
  const EpisodicMemory& memory = chat.memory();
  // Reading was stopped, nothing was said since: what was saved last has the same turns.
  if (memory.episodes().size() == 0 && !memory.record().turns.empty()) return false;
  Cache& cache = chat.answering().cache();
  Json data = record_json(chat);
  data["settings"] = identity.settings;
  SequenceRecord record{identity.model, identity.model_name, {}, {}};
  Json::to_cbor(data, record.data);
  std::vector<SessionPart> parts;
  for (int episode = 0; episode < int(memory.episodes().size()); ++episode) {
    const auto saved = files_.find(memory.revision(episode));
    parts.push_back({memory.sequence(episode), saved == files_.end() ? std::string() : saved->second});
  }
  const ScopedSequence empty(cache, cache.create());
  session_.save(cache, empty.id(), record, parts);
  files_.clear();
  for (size_t i = 0; i < parts.size(); ++i) files_[memory.revision(int(i))] = parts[i].file;
  return true;
}

Json episodic_summary(const Json& data) {
  Json messages = Json::array();
  if (const auto system = data.at("system").get<std::string>(); !system.empty())
    messages.push_back({{"role", "system"}, {"content", system}});
  for (const Json& turn : data.at("turns"))
    messages.push_back({{"role", turn.at("speaker")}, {"content", turn.at("text")}});
  int episodes = 0;
  for (const int episode : data.at("episode_of_segment").get<std::vector<int>>())
    episodes = std::max(episodes, episode + 1);
  return {{"messages", std::move(messages)}, {"episodes", episodes}};
}

}  // namespace kvasir
