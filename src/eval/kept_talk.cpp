// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/kept_talk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "cache/cache_impl.h"
#include "eval/context_reader.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// Seconds since the last lap, or the beginning.
class Laps {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

size_t take_pool_peak(Engine& engine) {
  Pool& pool = engine.cache().impl().pool;
  const size_t peak = pool.peak();
  pool.restart_peak();
  return peak;
}

class FullTalk : public KeptTalk {
 public:
  explicit FullTalk(const Model& model) : KeptTalk(model, chat_frame(model, "")) {}

 protected:
  std::vector<int32_t> prepare(const std::string& message, TurnCost&) override {
    std::vector<int32_t> tokens = begun() ? std::vector<int32_t>{pending_} : frame().opening_tokens(model());
    const std::vector<int32_t> fresh = frame().message_tokens(model(), message, !begun());
    tokens.insert(tokens.end(), fresh.begin(), fresh.end());
    return tokens;
  }
  void finish(std::span<const int32_t> answer) override { pending_ = answer.back(); }

 private:
  int32_t pending_ = 0;  // the last answer's last token, which isn't decoded yet
};

class OurFullTalk : public FullTalk {
 public:
  explicit OurFullTalk(Engine& engine)
      : FullTalk(engine.model()), engine_(engine), sequence_(engine.cache().create()) {}
  ~OurFullTalk() override { engine_.cache().remove(sequence_); }
  int64_t tokens() const override { return engine_.cache().length(sequence_) + 1; }

 protected:
  int32_t read(std::span<const int32_t> tokens) override { return likeliest_word(engine_.decode(sequence_, tokens)); }
  size_t bytes() const override { return engine_.cache().size().total(); }
  size_t take_peak() override { return take_pool_peak(engine_); }

 private:
  Engine& engine_;
  SequenceId sequence_;
};

class NativeFullTalk : public FullTalk {
 public:
  NativeFullTalk(const Model& model, NativeEngine& engine) : FullTalk(model), engine_(engine) { engine_.clear(); }
  int64_t tokens() const override { return decoded_ + 1; }

 protected:
  int32_t read(std::span<const int32_t> tokens) override {
    int32_t next = 0;
    engine_.decode(tokens, false, [&](int, int, const float* logits) {
      next = likeliest_word({logits, size_t(model().vocab_size())});
    });
    decoded_ += int64_t(tokens.size());
    return next;
  }
  // Allocated as a whole, for all positions.
  size_t bytes() const override { return engine_.cache_bytes(); }
  size_t take_peak() override { return engine_.cache_bytes(); }

 private:
  NativeEngine& engine_;
  int64_t decoded_ = 0;
};

class EpisodicTalk : public KeptTalk {
 public:
  explicit EpisodicTalk(const EpisodicSetup& setup)
      : KeptTalk(setup.answering.model(), chat_frame(setup.answering.model(), "")),
        reading_(setup.reading),
        chat_(setup, {}) {}
  int64_t tokens() const override { return chat_.memory().tokens() + 1; }

 protected:
  std::vector<int32_t> prepare(const std::string& message, TurnCost& cost) override {
    const int64_t before = chat_.memory().tokens_read(), prompts_before = chat_.memory().prompt_tokens();
    const EpisodicChat::Question question = chat_.begin_turn(message, [&](int64_t, int64_t) { watch_peak(); });
    sequence_ = question.episode.sequence;
    cost.clustered = question.clustered;
    cost.selected = question.episode.selected;
    cost.opened = question.episode.opened && begun();
    cost.episode = question.episode.episode;
    cost.decoded += chat_.memory().tokens_read() - before;
    cost.prompts = chat_.memory().prompt_tokens() - prompts_before;
    return question.tokens;
  }
  int32_t read(std::span<const int32_t> tokens) override {
    return likeliest_word(chat_.answering().decode(sequence_, tokens));
  }
  void finish(std::span<const int32_t> answer) override {
    std::string text;
    for (const int32_t token : answer) text += model().piece(token);
    chat_.finish_turn(text, answer, answer.size() - 1);
  }
  size_t bytes() const override { return chat_.answering().cache().size().total() + reading_.cache().size().total(); }
  size_t take_peak() override {
    watch_peak();
    return std::exchange(peak_, 0);
  }

 private:
  // Of both caches at once. They peak at different moments, so this is asked for after every block that is read.
  void watch_peak() { peak_ = std::max(peak_, take_pool_peak(reading_) + take_pool_peak(chat_.answering())); }

  Engine& reading_;
  EpisodicChat chat_;
  SequenceId sequence_ = 0;
  size_t peak_ = 0;
};

}  // namespace

KeptTalk::KeptTalk(const Model& model, ChatFrame frame) : model_(model), frame_(std::move(frame)) {}

int32_t KeptTalk::likeliest_word(std::span<const float> logits) const {
  const int32_t best = likeliest(logits);
  if (!model_.is_end(best)) return best;
  int32_t word = -1;
  for (int32_t token = 0; token < int32_t(logits.size()); ++token)
    if ((word < 0 || logits[size_t(token)] > logits[size_t(word)]) && !model_.is_end(token)) word = token;
  return word;
}

int64_t KeptTalk::tokens_after(const std::string& message, int answer_tokens) const {
  const int64_t past = begun() ? tokens() : int64_t(frame_.opening_tokens(model_).size());
  return past + int64_t(frame_.message_tokens(model_, message, !begun()).size()) + answer_tokens;
}

TurnCost KeptTalk::take_turn(const std::string& message, int answer_tokens) {
  take_peak();
  TurnCost cost;
  Laps laps;
  const std::vector<int32_t> question = prepare(message, cost);
  cost.prepare = laps.lap();
  std::vector<int32_t> answer = {read(question)};
  cost.read = laps.lap();
  while (int(answer.size()) < answer_tokens) answer.push_back(read({&answer.back(), 1}));
  cost.generate = laps.lap();
  finish(answer);
  cost.finish = laps.lap();
  cost.decoded += int64_t(question.size() + answer.size()) - 1;
  begun_ = true;
  cost.talk_tokens = tokens();
  cost.bytes = bytes();
  cost.peak_bytes = std::max(take_peak(), cost.bytes);
  return cost;
}

std::unique_ptr<KeptTalk> talk_in_full(Engine& engine) {
  return std::make_unique<OurFullTalk>(engine);
}

std::unique_ptr<KeptTalk> talk_in_full(const Model& model, NativeEngine& engine) {
  return std::make_unique<NativeFullTalk>(model, engine);
}

std::unique_ptr<KeptTalk> talk_in_episodes(const EpisodicSetup& setup) {
  return std::make_unique<EpisodicTalk>(setup);
}

PlayedTalk play_talk(std::span<const NamedTalk> ways, std::span<const std::string> messages, int answer_tokens,
                     int64_t context, const std::function<bool(const PlayedTalk&)>& go_on) {
  PlayedTalk played;
  for (const NamedTalk& way : ways) played.ways.push_back({way.name, {}});
  for (const std::string& message : messages) {
    const int64_t after = ways[0].talk->tokens_after(message, answer_tokens);
    if (after > context) {
      if (played.turns == 0)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("the first turn takes {} tokens, and the context holds {}; raise -c", after, context));
      played.next_tokens = after;
      break;
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      const size_t way = (played.turns + i) % ways.size();
      const TurnCost cost = ways[way].talk->take_turn(message, answer_tokens);
      if (cost.talk_tokens != after)
        throw Error(ErrorCode::internal, fmt::format("{} holds a talk of {} tokens, and it has {}", ways[way].name,
                                                     cost.talk_tokens, after));
      played.ways[way].turns.push_back(cost);
    }
    ++played.turns;
    played.stopped = go_on && !go_on(played);
    if (played.stopped) break;
  }
  return played;
}

}  // namespace kvasir
