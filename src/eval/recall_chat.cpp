// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/recall_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <string_view>

#include "eval/filler.h"
#include "eval/task_words.h"

namespace kvasir {
namespace {

enum class Kind { number, name };

struct Thing {
  std::string_view thing;  // of "my" and of "your"
  Kind kind;
};

constexpr std::array<Thing, kMostChatFacts> kThings = {{
    {"bicycle lock code", Kind::number},   {"sister's cat's name", Kind::name},
    {"library card number", Kind::number}, {"landlady's name", Kind::name},
    {"locker number", Kind::number},       {"guest network password", Kind::name},
    {"garage door code", Kind::number},    {"street's name", Kind::name},
    {"dentist's extension", Kind::number}, {"piano teacher's name", Kind::name},
    {"parcel number", Kind::number},       {"favourite bakery's name", Kind::name},
    {"alarm code", Kind::number},          {"nephew's school's name", Kind::name},
    {"ferry ticket number", Kind::number}, {"boat's name", Kind::name},
    {"seat number", Kind::number},         {"old dog's name", Kind::name},
    {"customer number", Kind::number},     {"holiday village's name", Kind::name},
    {"safe combination", Kind::number},    {"choir's name", Kind::name},
    {"race bib number", Kind::number},     {"neighbour's name", Kind::name},
}};

constexpr std::array<std::string_view, 6> kTellings = {
    "By the way, my {} is {}.",           "Before I forget: my {} is {}.",  "Oh, and my {} is {}, in case it matters.",
    "I should mention that my {} is {}.", "Just so you know, my {} is {}.", "That reminds me, my {} is {}."};
constexpr std::array<std::string_view, 4> kRequests = {
    "Here is the next part of the harbour's day book:", "The book goes on like this:", "Another page from it:",
    "I copied some more of it:"};
constexpr std::array<std::string_view, 6> kReplies = {
    "Thank you. I have read this part, and it fits what came before.",
    "Noted. The harbour seems to have been busy in those days.",
    "I have taken that in. The weather plays a large part again.",
    "Understood. The trade of the port is described with much care here.",
    "Thanks, I'm following. The keeper of the book has an eye for small things.",
    "That is a lively page. Please go on when you like."};

constexpr size_t kSentences = 5;  // of the book in each message
constexpr int kDigits = 6;

std::string capitalized(std::string word) {
  word[0] = char(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

std::vector<ChatFact> make_facts(TaskWords& words, int count) {
  std::vector<size_t> order(kThings.size());
  std::iota(order.begin(), order.end(), size_t(0));
  shuffle(order, words.random());
  std::vector<ChatFact> facts;
  for (size_t i = 0; i < size_t(std::min(count, kMostChatFacts)); ++i) {
    const Thing& thing = kThings[order[i]];
    ChatFact fact;
    fact.answer = thing.kind == Kind::number ? words.number(kDigits) : capitalized(words.word());
    fact.statement = fmt::format(fmt::runtime(kTellings[i % kTellings.size()]), thing.thing, fact.answer);
    fact.question = fmt::format("One more thing: earlier I told you my {}. What is it?", thing.thing);
    fact.answer_prefix = fmt::format("Your {} is", thing.thing);
    facts.push_back(std::move(fact));
  }
  return facts;
}

}  // namespace

RecallChat make_recall_chat(uint64_t seed, int64_t turns, int facts) {
  TaskWords words(seed);
  RecallChat chat;
  chat.facts = make_facts(words, facts);
  const Filler book = Filler::document(seed);
  size_t sentence = 0, next = 0;
  const double per_fact = double(turns) / double(std::max<size_t>(chat.facts.size(), 1));
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::string text(kRequests[size_t(turn) % kRequests.size()]);
    for (size_t i = 0; i < kSentences; ++i) text += book.sentence(sentence++);
    for (; next < chat.facts.size() && int64_t((double(next) + 0.5) * per_fact) <= turn; ++next) {
      chat.facts[next].depth = double(turn) / double(turns);
      text += "\n" + chat.facts[next].statement;
    }
    chat.messages.push_back({"user", std::move(text)});
    chat.messages.push_back({"assistant", std::string(kReplies[size_t(turn) % kReplies.size()])});
  }
  return chat;
}

}  // namespace kvasir
