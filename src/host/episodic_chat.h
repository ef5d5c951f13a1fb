// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A chat with a model that remembers in episodes: messages go through the model's chat template into the episode that
// they are about, and the caller decodes the answer there. As long as all of it fits, there is one episode, which holds
// everything.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "host/chat_frame.h"
#include "host/episodic_memory.h"

namespace kvasir {

// The past is clustered anew, and read again for each episode, whenever it is so many times as long as it was then: all
// these readings together take at most twice the tokens of the last one.
inline constexpr int64_t kClusterAgain = 2;

struct EpisodicSetup {
  Engine& reading;    // by reading_options()
  Engine& answering;  // both outlive the chat, as the encoder does
  Encoder& encoder;
  EpisodicOptions options;  // without a prompt, which the chat makes by the template
};

// What a chat is beside its memory.
struct EpisodicChatState {
  std::string system;            // may be empty
  std::vector<int32_t> pending;  // end of the last answer that no cache holds: a limit's last token isn't decoded
  bool operator==(const EpisodicChatState&) const = default;
};

class EpisodicChat {
 public:
  // A new one. `options.most_bytes` bounds the number of episodes so that each may hold its budget and two blocks.
  // Throws Error: unsupported (a model without a chat template, or one that can't be told turn by turn),
  // invalid_argument (not even one episode fits into most_bytes), and what EpisodicMemory throws.
  EpisodicChat(const EpisodicSetup& setup, EpisodicChatState state);
  // One that goes on: see EpisodicMemory::restore.
  EpisodicChat(const EpisodicSetup& setup, EpisodicChatState state, MemoryRecord record,
               std::vector<std::vector<float>> embeddings, std::vector<SequenceId> sequences);

  struct Question {
    EpisodicMemory::Retrieved episode;
    std::vector<int32_t> tokens;  // to decode in episode.sequence; the answer comes behind them
    bool clustered = false;       // the past was clustered before
  };
  // Nothing changes if it throws: context_full (positions end before the message does), out_of_memory, and whatever
  // `progress` (tokens that are read to cluster the past) throws.
  using Progress = std::function<void(int64_t done, int64_t total)>;
  Question begin_turn(const std::string& message, const Progress& progress = {});
  // The answer as text and as tokens, of which the first `decoded` are in the sequence; the others are decoded with the
  // next message. The turn is part of the past.
  void finish_turn(const std::string& answer, std::span<const int32_t> tokens, size_t decoded);
  // As if the turn had never begun.
  void take_back();

  // The system message, users' and assistant's.
  std::vector<Model::Message> messages() const;
  const EpisodicChatState& state() const { return state_; }
  const EpisodicMemory& memory() const { return memory_; }
  Engine& answering() const { return answering_; }

 private:
  EpisodicOptions complete(EpisodicOptions options) const;

  Engine& answering_;
  EpisodicChatState state_;
  ChatFrame frame_;
  EpisodicMemory memory_;
  std::string message_;  // of the turn that has begun
  Question question_;
};

}  // namespace kvasir
