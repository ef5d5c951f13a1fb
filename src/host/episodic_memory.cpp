// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/episodic_memory.h"

#include <algorithm>
#include <utility>

#include "episode/patched_prompt.h"
#include "kvasir/error.h"

namespace kvasir {

EngineOptions reading_options(const EngineOptions& answering) {
  EngineOptions options = answering;
  options.cache = CacheOptions();
  options.cache.key = options.cache.value = "f16";
  options.cache.sink = answering.cache.sink;
  options.cache.recent = 0;
  options.context += kMostPromptTokens;  // prompts are read behind the past
  return options;
}

EpisodicMemory::EpisodicMemory(Engine& reading, Engine& answering, Encoder& encoder, EpisodicOptions options)
    : reading_(reading), answering_(answering), encoder_(encoder), options_(std::move(options)) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (reading.model().fingerprint() != answering.model().fingerprint())
    refuse("episodes are read and answered by one model, and these are two");
  if (reading.cache().options().sink != answering.cache().options().sink)
    refuse("the engines that read and answer need the same --sink");
  if (options_.episodes < 1 || options_.utterances < 1 || options_.representatives < 1)
    refuse("episodes, utterances of a segment and representatives are 1 or more");
  if (!(options_.threshold >= -1 && options_.threshold <= 1)) refuse("the threshold is a cosine, -1 to 1");
  const BlockPrefill check(reading_, selection(-1));  // throws
}

EpisodicMemory::~EpisodicMemory() {
  forget();
}

void EpisodicMemory::forget() {
  keep_turn();
  for (const SequenceId sequence : sequences_)
    if (sequence >= 0) answering_.cache().remove(sequence);
  sequences_.clear();
  revisions_.clear();
  episodes_ = {};
  record_.episode_of_segment.clear();
}

SelectionOptions EpisodicMemory::selection(int episode) const {
  SelectionOptions selection;
  selection.method = SelectionMethod::prompt;
  selection.budgets = options_.budgets;
  selection.block = options_.block;
  selection.head_floor = options_.head_floor;
  selection.prompt = [this, episode](std::span<const int32_t>) {
    const std::string request(episode_request());
    const std::string excerpts =
        episode < 0 ? std::string()
                    : episode_excerpts(record_.segments, episodes_.representatives(episode, options_.representatives));
    std::vector<int32_t> prompt = options_.prompt
                                      ? options_.prompt(request, excerpts)
                                      : reading_.model().tokenize("\n\n" + request + "\n\n" + excerpts, false, false);
    // The end of a long one is left out: the request and the first excerpts remain.
    prompt.resize(std::min(prompt.size(), size_t(kMostPromptTokens)));
    return prompt;
  };
  return selection;
}

void EpisodicMemory::read(std::span<const int32_t> opening, std::span<const MemoryTurn> turns,
                          const std::function<void(int64_t, int64_t)>& progress) {
  MemoryRecord record;  // what is given may be the record that there is
  record.opening.assign(opening.begin(), opening.end());
  record.turns.assign(turns.begin(), turns.end());
  forget();
  record_ = std::move(record);
  tokens_ = record_.opening;
  Transcript transcript;
  for (const MemoryTurn& turn : record_.turns) {
    tokens_.insert(tokens_.end(), turn.tokens.begin(), turn.tokens.end());
    transcript.push_back(turn.utterance);
  }
  record_.segments = make_segments(transcript, options_.utterances);
  record_.segmented_turns = record_.turns.size();
  const std::vector<std::string> texts = segment_texts(record_.segments);
  encoder_.learn(texts);
  record_.learned_segments = texts.size();
  record_.learned = encoder_.learned();
  record_.clustered_tokens = record_.turns.empty() ? 0 : int64_t(tokens_.size());
  EpisodeOptions clustering;
  clustering.episodes = options_.episodes;
  clustering.seed = options_.seed;
  clustering.threads = reading_.options().threads;
  episodes_ = Episodes(encoder_.encode_segments(texts), clustering);
  record_.episode_of_segment = episodes_.episode_of_segment();
  if (episodes_.size() == 0) return;
  try {
    read_episodes(progress);
  } catch (...) {
    forget();
    throw;
  }
}

void EpisodicMemory::read_episodes(const std::function<void(int64_t, int64_t)>& progress) {
  const std::span<const int32_t> all = tokens_;
  const int64_t total = int64_t(all.size()) * int64_t(episodes_.size());
  BlockPrefill shared(reading_, selection(0));
  size_t done = 0;
  const auto append = [&](BlockPrefill& prefill, size_t first, int episode) {
    const size_t count = std::min(all.size() - first, size_t(options_.block));
    prefill.append(all.subspan(first, count));
    if (progress) progress(int64_t(first + count) + int64_t(episode) * int64_t(all.size()), total);
    return first + count;
  };
  while (done < all.size() && !shared.over_budget()) done = append(shared, done, 0);
  for (int episode = 0; episode < int(episodes_.size()); ++episode) {
    const std::unique_ptr<BlockPrefill> prefill = shared.fork(selection(episode));
    for (size_t first = done; first < all.size();) first = append(*prefill, first, episode);
    prefill->finish();
    count(*prefill);
    sequences_.push_back(-1);
    revisions_.push_back(0);
    seal(episode, prefill->sequence());
  }
  count(shared);
}

void EpisodicMemory::count(const BlockPrefill& prefill) {
  tokens_read_ += prefill.tokens_read();
  prompt_tokens_ += prefill.prompt_tokens();
  peak_bytes_ = std::max(peak_bytes_, prefill.peak_bytes());
}

// In place of what the episode had.
void EpisodicMemory::seal(int episode, SequenceId built) {
  Cache& cache = answering_.cache();
  SequenceId& sequence = sequences_[size_t(episode)];
  const SequenceId fresh = cache.seal(reading_.cache(), built, sequence >= 0 ? std::optional(sequence) : std::nullopt);
  if (sequence >= 0) cache.remove(sequence);
  sequence = fresh;
  changed(episode);
}

void EpisodicMemory::restore(MemoryRecord record, std::vector<std::vector<float>> embeddings,
                             std::vector<SequenceId> sequences) {
  std::vector<int32_t> tokens = record.opening;
  for (const MemoryTurn& turn : record.turns) tokens.insert(tokens.end(), turn.tokens.begin(), turn.tokens.end());
  Episodes episodes = Episodes::restore(std::move(embeddings), record.episode_of_segment);
  const bool fits = episodes.size() == sequences.size() && record.segments.size() == episodes.segments() &&
                    record.learned_segments <= record.segments.size() && record.segmented_turns <= record.turns.size();
  const bool told = std::all_of(sequences.begin(), sequences.end(), [&](SequenceId sequence) {
    return answering_.cache().length(sequence) <= int64_t(tokens.size());
  });
  if (!fits || !told)
    throw Error(ErrorCode::invalid_argument, "a conversation's record and its episodes' sequences don't go together");
  std::vector<std::string> texts = segment_texts(record.segments);
  texts.resize(record.learned_segments);
  if (record.learned.empty())
    encoder_.learn(texts);
  else
    encoder_.put_back(record.learned);
  forget();
  record_ = std::move(record);
  tokens_ = std::move(tokens);
  episodes_ = std::move(episodes);
  sequences_ = std::move(sequences);
  revisions_.resize(sequences_.size());
  for (int episode = 0; episode < int(sequences_.size()); ++episode) changed(episode);
}

// Of the layers that selection works on, KV heads together. Episode -1 holds nothing.
bool EpisodicMemory::exceeds(int episode, int64_t more, int64_t slack) const {
  const Cache& cache = answering_.cache();
  int64_t held = 0, most = 0;
  for (size_t layer = 0; layer < options_.budgets.size(); ++layer) {
    const LayerGeometry& shape = cache.geometry().layers[layer];
    if (shape.window > 0) continue;
    if (episode >= 0) held += cache.held_tokens(sequences_[size_t(episode)], int(layer));
    held += shape.kv_heads * more;
    most += shape.kv_heads * (options_.budgets[layer] + slack);
  }
  return held > most;
}

bool EpisodicMemory::outgrown() const {
  return exceeds(-1, tokens(), options_.block);
}

EpisodicMemory::Retrieved EpisodicMemory::retrieve(const std::string& query) {
  const Retrieved found = begin_turn(query);
  keep_turn();
  return found;
}

EpisodicMemory::Retrieved EpisodicMemory::begin_turn(const std::string& query) {
  keep_turn();
  try {
    return find(query);
  } catch (...) {
    take_back();
    throw;
  }
}

void EpisodicMemory::keep_turn() {
  if (before_ && before_->sequence >= 0) answering_.cache().remove(before_->sequence);
  before_.reset();
}

void EpisodicMemory::take_back() {
  if (!before_) return;
  const Before before = *std::exchange(before_, std::nullopt);
  SequenceId& sequence = sequences_[size_t(before.episode)];
  if (sequence >= 0) answering_.cache().remove(sequence);
  sequence = before.sequence;
  revisions_[size_t(before.episode)] = before.revision;
  if (!before.opened) return;
  sequences_.pop_back();
  revisions_.pop_back();
  episodes_.close_last();
  record_.segments.pop_back();
  record_.episode_of_segment = episodes_.episode_of_segment();
}

EpisodicMemory::Retrieved EpisodicMemory::find(const std::string& query) {
  if (episodes_.size() == 0 && !record_.turns.empty())
    throw Error(ErrorCode::invalid_argument, "the conversation wasn't read to its end: read it again");
  std::vector<float> embedding = encoder_.encode_query(query);
  Retrieved found;
  if (episodes_.size() > 0) {
    const EpisodeMatch match =
        options_.match_segments ? episodes_.match_segment(embedding) : episodes_.match(embedding);
    found.episode = match.episode;
    found.cosine = match.cosine;
  }
  // A query without a word that says anything is about what was talked about last.
  const bool says_nothing = std::ranges::all_of(embedding, [](float x) { return x == 0; });
  if (says_nothing && !record_.episode_of_segment.empty()) found.episode = record_.episode_of_segment.back();
  const bool is_new = !says_nothing && found.cosine < options_.threshold && record_.clustered_tokens > 0 && has_room();
  if (episodes_.size() == 0 || is_new) {
    found.episode = int(sequences_.size());
    found.opened = true;
    before_ = {found.episode, true, -1, 0};
    open_episode(query, std::move(embedding));
  } else {
    const SequenceId copy = answering_.cache().fork(sequences_[size_t(found.episode)]);
    before_ = {found.episode, false, copy, revision(found.episode)};
  }
  const int64_t before = tokens_read_;
  const int64_t length = answering_.cache().length(sequences_[size_t(found.episode)]);
  const std::span<const int32_t> missing = std::span<const int32_t>(tokens_).subspan(size_t(length));
  if (exceeds(found.episode, int64_t(missing.size()), options_.block)) {
    refresh(found.episode, missing);
    found.selected = true;
  } else if (!missing.empty()) {
    answering_.decode(sequences_[size_t(found.episode)], missing);
    tokens_read_ += int64_t(missing.size());
    changed(found.episode);
  }
  found.fed_tokens = tokens_read_ - before;
  found.sequence = sequences_[size_t(found.episode)];
  return found;
}

// Whether one more episode may be opened.
bool EpisodicMemory::has_room() const {
  if (options_.most_episodes > 0 && int(sequences_.size()) >= options_.most_episodes) return false;
  if (options_.most_bytes == 0) return true;
  size_t largest = 0;  // what a new one may grow to
  for (const SequenceId sequence : sequences_) largest = std::max(largest, answering_.cache().size(sequence).total());
  return bytes() + largest <= options_.most_bytes;
}

// What the episode has grown by since it was sealed is selected from like a block that was read just now. Its kept
// tokens come back from the codec, and go to the same codes again.
void EpisodicMemory::refresh(int episode, std::span<const int32_t> missing) {
  const SequenceId built = reading_.cache().seal(answering_.cache(), sequences_[size_t(episode)]);
  BlockPrefill prefill(reading_, selection(episode), built);
  prefill.append(missing);
  prefill.finish();
  count(prefill);
  seal(episode, prefill.sequence());
}

// A cache that holds the conversation's first tokens and none of what came after.
void EpisodicMemory::open_episode(const std::string& query, std::vector<float> embedding) {
  // First, so that what fails later is taken back as a whole.
  sequences_.push_back(-1);
  revisions_.push_back(0);
  record_.segments.push_back({record_.turns.size(), 0, query});
  episodes_.open(std::move(embedding));
  record_.episode_of_segment = episodes_.episode_of_segment();
  const size_t sinks = size_t(reading_.cache().options().sink);
  const size_t first = std::min(tokens_.size(), std::max(record_.opening.size(), sinks));
  BlockPrefill prefill(reading_, selection(-1));
  const SequenceId sequence = prefill.sequence();
  if (first > 0) reading_.decode(sequence, std::span<const int32_t>(tokens_).first(first));
  if (tokens_.size() > first) reading_.cache().skip(sequence, int64_t(tokens_.size() - first));
  tokens_read_ += int64_t(first);
  seal(int(sequences_.size()) - 1, sequence);
}

void EpisodicMemory::append(int episode, std::span<const MemoryTurn> turns) {
  if (episode >= int(episodes_.size()))
    throw Error(ErrorCode::invalid_argument, "no episode " + std::to_string(episode) + " in this conversation");
  if (episode < 0 && episodes_.size() == 0 && !turns.empty())
    throw Error(ErrorCode::invalid_argument, "a conversation without episodes can't take turns that none has heard");
  int64_t length = int64_t(tokens_.size());
  for (const MemoryTurn& turn : turns) length += int64_t(turn.tokens.size());
  if (episode >= 0 && answering_.cache().length(sequences_[size_t(episode)]) > length)
    throw Error(ErrorCode::invalid_argument,
                "the episode's sequence holds more tokens than the turns that were appended");
  // All that can fail comes before anything is changed.
  Transcript fresh;
  for (size_t i = record_.segmented_turns; i < record_.turns.size(); ++i) fresh.push_back(record_.turns[i].utterance);
  for (const MemoryTurn& turn : turns) fresh.push_back(turn.utterance);
  std::vector<TranscriptSegment> segments = make_segments(fresh, options_.utterances);
  const std::vector<std::vector<float>> embeddings = encoder_.encode_segments(segment_texts(segments));

  for (const MemoryTurn& turn : turns) {
    tokens_.insert(tokens_.end(), turn.tokens.begin(), turn.tokens.end());
    record_.turns.push_back(turn);
  }
  keep_turn();
  if (episode >= 0) changed(episode);
  // The turns since the last segment become one, in the episode that heard them; told to none, they go where they fit.
  for (size_t i = 0; i < segments.size(); ++i) {
    segments[i].first += record_.segmented_turns;
    record_.segments.push_back(std::move(segments[i]));
    episodes_.append(episode >= 0 ? episode : episodes_.match_segment(embeddings[i]).episode, embeddings[i]);
  }
  record_.segmented_turns = record_.turns.size();
  record_.episode_of_segment = episodes_.episode_of_segment();
  shrink();
}

// What long turns have put over the bound on all episodes.
void EpisodicMemory::shrink() {
  while (options_.most_bytes > 0 && bytes() > options_.most_bytes) {
    int largest = -1;
    size_t most = 0;
    for (int episode = 0; episode < int(sequences_.size()); ++episode) {
      const size_t size = answering_.cache().size(sequences_[size_t(episode)]).total();
      if (size > most && exceeds(episode, 0, 0)) {
        largest = episode;
        most = size;
      }
    }
    if (largest < 0) return;
    try {
      refresh(largest, {});
    } catch (const Error& error) {
      // The turn is told all the same; there may be room when the episode is refreshed next.
      if (error.code() != ErrorCode::out_of_memory) throw;
      return;
    }
  }
}

size_t EpisodicMemory::bytes() const {
  size_t total = 0;
  for (const SequenceId sequence : sequences_) total += answering_.cache().size(sequence).total();
  return total;
}

}  // namespace kvasir
