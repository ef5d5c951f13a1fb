// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/recall_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "eval/cell_scores.h"
#include "eval/recall_chat.h"
#include "eval/task_prompt.h"
#include "eval/task_words.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

constexpr int kFifths = 5;

struct ChatQuestion {
  const ChatFact* fact;
  std::vector<int32_t> tokens, right_answer;
};

// A chat that fits, as tokens: read once, then asked.
struct TokenizedChat {
  RecallChat chat;
  std::vector<int32_t> history;
  std::vector<ChatQuestion> questions;
  int64_t tokens = 0;  // history, the longest question and its answer
};

std::string plain_text(std::span<const Model::Message> messages) {
  std::string text;
  for (const Model::Message& message : messages)
    text += (message.role == "user" ? "User: " : "Assistant: ") + message.content + "\n";
  return text;
}

class ChatText {
 public:
  ChatText(const Model& model, bool raw) : model_(model), chat_(uses_chat_template(model, raw)) {}

  TokenizedChat tokenize(RecallChat chat, int answer_tokens) const {
    TokenizedChat result;
    result.chat = std::move(chat);
    std::vector<Model::Message> messages = result.chat.messages;
    const std::string history = render(messages, false);
    result.history = tokenize_beginning(model_, history, chat_);
    size_t longest = 0;
    for (const ChatFact& fact : result.chat.facts) {
      messages.push_back({"user", fact.question});
      const std::string all = render(messages, true) + fact.answer_prefix;
      messages.pop_back();
      if (!all.starts_with(history))
        throw Error(ErrorCode::unsupported,
                    "this model's chat template rewrites earlier turns, so a chat can't be read once and asked "
                    "several times; give --raw");
      ChatQuestion question;
      question.fact = &fact;
      question.tokens =
          tokenize_continuation(model_, history.substr(history.size() - 1), all.substr(history.size()), chat_);
      question.right_answer = tokenize_continuation(model_, fact.answer_prefix, " " + fact.answer, false);
      longest =
          std::max(longest, question.tokens.size() + std::max(size_t(answer_tokens), question.right_answer.size()));
      result.questions.push_back(std::move(question));
    }
    result.tokens = int64_t(result.history.size() + longest);
    return result;
  }

 private:
  std::string render(std::span<const Model::Message> messages, bool ask) const {
    if (chat_) return model_.apply_chat_template(messages, ask);
    return plain_text(messages) + (ask ? "Assistant: " : "");
  }

  const Model& model_;
  bool chat_;
};

TokenizedChat fitting_chat(const RecallOptions& options, int index) {
  const ChatText text(*options.setup.model, options.setup.raw);
  SplitMix mix(options.seed * 0x9e3779b97f4a7c15ull + uint64_t(index));
  const uint64_t seed = mix.next();
  const auto make = [&](int64_t turns) {
    return text.tokenize(make_recall_chat(seed, turns, options.facts), options.answer_tokens);
  };
  constexpr int64_t kTurnTokens = 200;  // a guess that only saves work
  const int64_t turns = largest_that_fits(1, options.length / kTurnTokens, options.length,
                                          [&](int64_t count) { return make(count).tokens; });
  if (turns < 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} tokens are too few for a chat of one turn with {} facts, which takes {}; raise -c or "
                            "lower --facts",
                            options.length, options.facts, make(1).tokens));
  return make(turns);
}

}  // namespace

std::vector<std::string> recall_methods() {
  return {"full"};
}

void check_recall(const RecallOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  const std::vector<std::string> known = recall_methods();
  if (options.methods.empty()) refuse("--method names no method");
  for (const std::string& method : options.methods) {
    if (std::find(known.begin(), known.end(), method) != known.end()) continue;
    refuse(
        fmt::format("--method {} isn't there: this version keeps every token (full) and has no eviction; choose "
                    "--method full, and --kv for how many bits a token takes",
                    method));
  }
  if (!(options.budget_ratio > 0 && options.budget_ratio <= 1))
    refuse(fmt::format("--budget-ratio takes a share above 0 and up to 1, got {}", options.budget_ratio));
  if (options.facts < 1 || options.facts > kMostChatFacts)
    refuse(fmt::format("--facts takes 1 to {}, got {}", kMostChatFacts, options.facts));
  if (options.chats < 1 || options.answer_tokens < 1)
    refuse(fmt::format("--chats and -n take 1 or more, got {} and {}", options.chats, options.answer_tokens));
}

Json run_recall(const RecallOptions& options) {
  check_recall(options);
  const EvalSetup& setup = options.setup;
  if (options.length > setup.context)
    throw Error(ErrorCode::invalid_argument, fmt::format("a chat of {} tokens doesn't fit into the context of {}; "
                                                         "raise -c",
                                                         options.length, setup.context));
  const std::unique_ptr<ContextReader> reader = make_reader(setup, options.length);
  const int64_t total = int64_t(options.chats) * options.facts;
  int64_t done = 0;
  std::array<CellScores, kFifths> cells;
  for (int c = 0; c < options.chats; ++c) {
    const TokenizedChat chat = fitting_chat(options, c);
    reader->restart();
    reader->read(chat.history);
    CellScores scores;
    for (const ChatQuestion& question : chat.questions) {
      const std::vector<std::string> answers = {question.fact->answer};
      const auto enough = [&](std::string_view text) { return answer_score(text, answers) == 1.0; };
      const ReadAnswer answer = reader->ask({question.tokens, question.right_answer, options.answer_tokens, enough});
      const double score = answer_score(answer.text, answers);
      scores.add(score, answer);
      cells[size_t(question.fact->depth * kFifths)].add(score, answer);
      if (setup.progress) setup.progress(++done, total);
    }
    if (setup.note)
      setup.note(fmt::format("chat {}/{}: {} tokens in {} turns, recalled {:.3f} of {} facts", c + 1, options.chats,
                             chat.history.size(), chat.chat.messages.size() / 2, scores.score(), scores.count()));
  }
  CellScores all;
  Json entries = Json::array();
  for (int fifth = 0; fifth < kFifths; ++fifth) {
    if (cells[size_t(fifth)].count() == 0) continue;
    Json entry = {{"method", "full"}, {"depth", 100 / kFifths * fifth}};
    cells[size_t(fifth)].write(entry);
    entries.push_back(entry);
    all.add(cells[size_t(fifth)]);
  }
  Json method;
  all.write(method);
  write_use(reader->use(), method);
  Json result = {{"methods", {{"full", method}}}, {"cells", entries},       {"budget_ratio", options.budget_ratio},
                 {"length", options.length},      {"facts", options.facts}, {"chats", options.chats},
                 {"seed", options.seed}};
  all.write(result);
  write_use(reader->use(), result);
  if (reader->cache()) result["nonfinite"] = reader->cache()->stats().nonfinite;
  return result;
}

}  // namespace kvasir
