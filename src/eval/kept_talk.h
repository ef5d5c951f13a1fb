// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One long talk, kept in several ways at once, and what each of its turns costs each of them. Every answer has the same
// number of tokens, whatever the model would end it with, so all ways do the same turns; what an answer says is the
// way's own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eval/turn_times.h"
#include "host/episodic_chat.h"

namespace kvasir {

// The caller looks after the engines, which outlive it.
class KeptTalk {
 public:
  virtual ~KeptTalk() = default;

  // One message and `answer_tokens` tokens of an answer, the last of which is decoded with the next message.
  TurnCost take_turn(const std::string& message, int answer_tokens);

  virtual int64_t tokens() const = 0;  // of the talk so far
  // What it would have after a turn with that message.
  int64_t tokens_after(const std::string& message, int answer_tokens) const;

 protected:
  KeptTalk(const Model& model, ChatFrame frame);
  // The message's tokens, with what has to come before them; whatever has to be done before they can be read.
  virtual std::vector<int32_t> prepare(const std::string& message, TurnCost& cost) = 0;
  // Decodes them behind the past; the likeliest token that doesn't end the answer.
  virtual int32_t read(std::span<const int32_t> tokens) = 0;
  virtual void finish(std::span<const int32_t> answer) = 0;
  virtual size_t bytes() const = 0;
  virtual size_t take_peak() = 0;  // of bytes since it was asked last

  int32_t likeliest_word(std::span<const float> logits) const;
  const Model& model() const { return model_; }
  const ChatFrame& frame() const { return frame_; }
  bool begun() const { return begun_; }

 private:
  const Model& model_;
  ChatFrame frame_;
  bool begun_ = false;
};

// All of it in one cache, where only what is new is decoded: ours and llama.cpp's own.
std::unique_ptr<KeptTalk> talk_in_full(Engine& engine);
std::unique_ptr<KeptTalk> talk_in_full(const Model& model, NativeEngine& engine);
std::unique_ptr<KeptTalk> talk_in_episodes(const EpisodicSetup& setup);

struct NamedTalk {
  std::string name;
  std::unique_ptr<KeptTalk> talk;
};

struct PlayedTalk {
  std::vector<WayTimes> ways;
  size_t turns = 0;         // of all ways
  int64_t next_tokens = 0;  // that one turn more would have needed, if positions ended before the messages; else 0
  bool stopped = false;     // by `go_on`
};

// The ways take turns, and who begins moves on by one each turn, so that a slow spell of the machine falls on all of
// them. Ends where the next turn wouldn't fit into `context` positions: tokens that episodes drop count as well. Or
// where `go_on`, asked after each turn, says no. Throws Error invalid_argument where not even the first one fits.
PlayedTalk play_talk(std::span<const NamedTalk> ways, std::span<const std::string> messages, int answer_tokens,
                     int64_t context, const std::function<bool(const PlayedTalk& so_far)>& go_on = {});

}  // namespace kvasir
