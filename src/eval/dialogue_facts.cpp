// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/dialogue_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "eval/task_words.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// None begins with a vowel, for the article before it.
constexpr auto kColours =
    std::to_array<std::string_view>({"red", "blue", "green", "yellow", "purple", "grey", "turquoise", "burgundy",
                                     "crimson", "beige", "maroon", "violet", "pink", "magenta"});
constexpr auto kWeekdays =
    std::to_array<std::string_view>({"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"});
// Without March and May, which are other words too.
constexpr auto kMonths = std::to_array<std::string_view>(
    {"January", "February", "April", "June", "July", "August", "September", "October", "November", "December"});
constexpr int kDigits = 3, kDays = 28;

// None is given twice; nothing where a kind is used up.
class Answers {
 public:
  explicit Answers(uint64_t seed) : words_(seed) {
    colours_.assign(kColours.begin(), kColours.end());
    weekdays_.assign(kWeekdays.begin(), kWeekdays.end());
    for (const std::string_view month : kMonths)
      for (int day = 1; day <= kDays; ++day) dates_.push_back(fmt::format("{} {}", month, day));
    for (auto* pool : {&colours_, &weekdays_, &dates_}) shuffle(*pool, words_.random());
  }

  bool left(AnswerKind kind, size_t count) const {
    if (kind == AnswerKind::colour) return colours_.size() >= count;
    if (kind == AnswerKind::weekday) return weekdays_.size() >= count;
    return true;  // far more than there are patterns
  }

  std::string next(AnswerKind kind) {
    switch (kind) {
      case AnswerKind::number: return words_.number(kDigits);
      case AnswerKind::colour: return taken(colours_);
      case AnswerKind::weekday: return taken(weekdays_);
      case AnswerKind::date: return taken(dates_);
      case AnswerKind::name: break;
    }
    std::string word = words_.word();
    word[0] = char(word[0] - 'a' + 'A');
    return word;
  }

 private:
  static std::string taken(std::vector<std::string>& pool) {
    std::string answer = std::move(pool.back());
    pool.pop_back();
    return answer;
  }

  TaskWords words_;
  std::vector<std::string> colours_, weekdays_, dates_;
};

std::string filled(std::string_view pattern, const std::string& who, const std::string& now, const std::string& old) {
  return fmt::format(fmt::runtime(pattern), fmt::arg("who", who), fmt::arg("new", now), fmt::arg("old", old));
}

// A pattern is about one speaker. The other one gets it once all are used: two facts that differ in the name alone are
// the hardest to tell apart.
std::vector<PlannedFact> waiting_facts(const DialogueTopic& topic, int index, SplitMix& random) {
  std::vector<PlannedFact> facts, others;
  for (const FactPattern& pattern : topic.facts) {
    PlannedFact fact{&pattern, int(random.below(2)), {}};
    fact.question.topic = index;
    facts.push_back(fact);
    fact.owner = 1 - fact.owner;
    others.push_back(fact);
  }
  shuffle(facts, random);
  shuffle(others, random);
  facts.insert(facts.end(), others.begin(), others.end());
  return facts;
}

}  // namespace

std::string telling_of(const PlannedFact& fact) {
  const DialogueQuestion& question = fact.question;
  return filled(fact.pattern->telling, "", question.old_answer.empty() ? question.answer : question.old_answer, "");
}

std::string update_of(const PlannedFact& fact) {
  return filled(fact.pattern->update, "", fact.question.answer, fact.question.old_answer);
}

std::vector<PlannedFact> plan_facts(const DialogueOptions& options, std::span<const DialogueTopic* const> topics,
                                    const std::array<std::string, 2>& speakers, uint64_t seed) {
  SplitMix random(seed);
  Answers answers(random.next());
  std::vector<std::vector<PlannedFact>> waiting;
  for (size_t t = 0; t < topics.size(); ++t) waiting.push_back(waiting_facts(*topics[t], int(t), random));

  std::vector<PlannedFact> facts;
  int updates = 0;
  const auto take_from = [&](std::vector<PlannedFact>& left) {
    while (!left.empty()) {
      PlannedFact fact = std::move(left.front());
      left.erase(left.begin());
      const AnswerKind kind = fact.pattern->kind;
      // So many of the facts so far should change; one that can't leaves it to the next.
      const int due = int(int64_t(facts.size() + 1) * options.updates / options.facts);
      const bool changes = updates < due && !fact.pattern->update.empty() && answers.left(kind, 2);
      if (!answers.left(kind, 1)) continue;
      if (changes) {
        fact.question.old_answer = answers.next(kind);
        ++updates;
      }
      fact.question.answer = answers.next(kind);
      facts.push_back(std::move(fact));
      return;
    }
  };
  for (size_t before = 1; before != facts.size() && int(facts.size()) < options.facts;) {
    before = facts.size();
    for (size_t t = 0; t < waiting.size() && int(facts.size()) < options.facts; ++t) take_from(waiting[t]);
  }
  for (PlannedFact& fact : facts)
    if (const AnswerKind kind = fact.pattern->kind; updates < options.updates && fact.question.old_answer.empty() &&
                                                    !fact.pattern->update.empty() && answers.left(kind, 1)) {
      fact.question.old_answer = answers.next(kind);
      ++updates;
    }
  if (int(facts.size()) < options.facts || updates < options.updates)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} topics hold no {} facts of which {} change; ask for fewer, or for more topics",
                            options.topics, options.facts, options.updates));
  for (PlannedFact& fact : facts) {
    const std::string& who = speakers[size_t(fact.owner)];
    fact.question.text = fmt::format("Speaking of {}, {}", topics[size_t(fact.question.topic)]->name,
                                     filled(fact.pattern->question, who, "", ""));
    fact.question.answer_prefix = filled(fact.pattern->answer_prefix, who, "", "");
  }
  return facts;
}

}  // namespace kvasir
