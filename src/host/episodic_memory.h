// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A conversation of any length as episodes (EpiCache, arXiv 2509.17396): segments of it are clustered by what they are
// about, and each cluster gets a cache of its own of the whole past, in which the tokens that matter for it were kept.
// A query is answered from the cache of the episode that it is about.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "episode/encoder.h"
#include "episode/episodes.h"
#include "episode/segments.h"
#include "host/block_prefill.h"
#include "kvasir/engine.h"

namespace kvasir {

// Of a prompt that tokens are judged by; what is longer is cut. The reading engine has so many positions more.
inline constexpr int kMostPromptTokens = 2048;

struct EpisodicOptions {
  std::vector<int64_t>
      budgets;       // M for each layer: tokens per KV head, sinks included (host/layer_profile.h makes them)
  int block = 512;   // B: tokens read between two selections, and most tokens that an episode outgrows M by
  int episodes = 4;  // E at the beginning; fewer where there are fewer segments
  int utterances = kSegmentUtterances;     // w
  int representatives = kRepresentatives;  // segments of an episode's prompt
  double head_floor = 0.2;                 // as in SelectionOptions
  // A query goes to the episode of the segment that is most like it; false: to that of the nearest centroid, as in the
  // paper, which holds the answer less often (docs/decisions.md).
  bool match_segments = true;
  // A query whose best cosine is under it opens an episode of its own; -1: never. Before the conversation was clustered
  // there is only one.
  double threshold = -1;
  // Of all episodes together: no new one is opened beyond, and after a turn that goes beyond, what is over its budgets
  // is selected from at once. 0: no limit.
  size_t most_bytes = 0;
  int most_episodes = 0;  // no new one is opened beyond; 0: no limit
  uint64_t seed = 42;     // of the clustering
  // Tokens of an episode's prompt, from its request and its excerpts (episode/patched_prompt.h). Empty: both as plain
  // text behind an empty line.
  std::function<std::vector<int32_t>(const std::string& request, const std::string& excerpts)> prompt;
};

// One utterance as the transcript and as the model has it.
struct MemoryTurn {
  Utterance utterance;
  std::vector<int32_t> tokens;

  bool operator==(const MemoryTurn&) const = default;
};

// All of a conversation that can't be computed again, for keeping it elsewhere.
struct MemoryRecord {
  std::vector<int32_t> opening;
  std::vector<MemoryTurn> turns;
  std::vector<TranscriptSegment> segments;
  std::vector<int> episode_of_segment;
  size_t segmented_turns = 0;    // the first turns that segments are made of
  size_t learned_segments = 0;   // the first segments, which the encoder learned
  std::vector<float> learned;    // and what it made of them, if it says so
  int64_t clustered_tokens = 0;  // of the past when it was clustered last; 0: never was

  bool operator==(const MemoryRecord&) const = default;
};

// How to make the engine that reads for one that answers.
EngineOptions reading_options(const EngineOptions& answering);

// Deterministic: the same turns and queries in the same order give the same caches.
class EpisodicMemory {
 public:
  // Episodes are read by `reading`, whose cache has 16-bit codecs, and kept in the cache of `answering`, in its codecs;
  // both are of one model and have the same sinks. The encoder learns this conversation.
  // Throws Error invalid_argument (two models, other sinks), and what BlockPrefill throws.
  EpisodicMemory(Engine& reading, Engine& answering, Encoder& encoder, EpisodicOptions options);
  ~EpisodicMemory();
  EpisodicMemory(const EpisodicMemory&) = delete;
  EpisodicMemory& operator=(const EpisodicMemory&) = delete;

  // The past so far, in place of any before: `opening` comes before the first turn (a system message, an introduction).
  // Clusters it and reads it once for each episode, what is the same for all of them once. If reading fails, or
  // `progress` throws, all turns are part of the record, no episode is there, and it has to be read again.
  void read(std::span<const int32_t> opening, std::span<const MemoryTurn> turns,
            const std::function<void(int64_t done, int64_t total)>& progress = {});

  struct Retrieved {
    int episode = -1;
    double cosine = 0;        // to the episode's nearest segment, or its centroid (match_segments)
    bool opened = false;      // nothing was like it: a new episode
    bool selected = false;    // it had outgrown its budgets and was selected from again
    SequenceId sequence = 0;  // in the answering cache; holds the whole past as the episode sees it
    int64_t fed_tokens = 0;   // decoded now: what others were told since, and prompts or an opening where needed
  };
  // What a run that stopped had: its record, the embeddings of its segments, its episodes' sequences in the answering
  // cache, which are this object's from now on. Goes on as that run would have.
  // Throws Error invalid_argument for parts that don't belong together.
  void restore(MemoryRecord record, std::vector<std::vector<float>> embeddings, std::vector<SequenceId> sequences);

  // The episode that the query is about, told of every turn so far. Decode in `sequence` and then call `append`, or in
  // a fork of it for what shall leave no trace.
  Retrieved retrieve(const std::string& query);
  // The same, and all of it, with what is decoded in `sequence`, can be taken back until the next append or query. If
  // it throws, nothing has changed.
  Retrieved begin_turn(const std::string& query);
  void take_back();

  // Turns that were decoded in the episode's sequence, or (episode -1) in none: they become part of the past. Other
  // episodes hear of them when they are retrieved.
  void append(int episode, std::span<const MemoryTurn> turns);

  const Episodes& episodes() const { return episodes_; }
  const MemoryRecord& record() const { return record_; }
  SequenceId sequence(int episode) const { return sequences_.at(size_t(episode)); }
  // Another number whenever the episode's sequence has changed; no two episodes ever have the same one.
  uint64_t revision(int episode) const { return revisions_.at(size_t(episode)); }
  int64_t tokens() const { return int64_t(tokens_.size()); }  // of the past
  const std::vector<int32_t>& history() const { return tokens_; }
  // Whether an episode that holds the whole past would have to drop some of it: it is over its budgets by more than a
  // block.
  bool outgrown() const;
  size_t bytes() const;                                     // of all episodes' caches, shared pages once
  size_t peak_bytes() const { return peak_bytes_; }         // most that one episode took while it was read, in 16 bits
  int64_t tokens_read() const { return tokens_read_; }      // decoded so far, prompts included
  int64_t prompt_tokens() const { return prompt_tokens_; }  // of those, in prompts that tokens are judged by

 private:
  // How things were before begin_turn.
  struct Before {
    int episode = -1;
    bool opened = false;
    SequenceId sequence = -1;
    uint64_t revision = 0;
  };

  bool has_room() const;
  Retrieved find(const std::string& query);
  // Whether the episode, with so many tokens more, is over its budgets by more than `slack` tokens a head.
  bool exceeds(int episode, int64_t more, int64_t slack) const;
  void changed(int episode) { revisions_[size_t(episode)] = ++last_revision_; }
  void keep_turn();
  SelectionOptions selection(int episode) const;
  void seal(int episode, SequenceId built);
  void count(const BlockPrefill& prefill);
  void refresh(int episode, std::span<const int32_t> missing);
  void open_episode(const std::string& query, std::vector<float> embedding);
  void shrink();
  void read_episodes(const std::function<void(int64_t done, int64_t total)>& progress);
  void forget();

  Engine& reading_;
  Engine& answering_;
  Encoder& encoder_;
  EpisodicOptions options_;
  MemoryRecord record_;
  std::vector<int32_t> tokens_;  // opening and turns, as the model reads them
  Episodes episodes_;
  std::vector<SequenceId> sequences_;  // of each episode, in the answering cache
  std::vector<uint64_t> revisions_;
  uint64_t last_revision_ = 0;
  std::optional<Before> before_;
  size_t peak_bytes_ = 0;
  int64_t tokens_read_ = 0, prompt_tokens_ = 0;
};

}  // namespace kvasir
