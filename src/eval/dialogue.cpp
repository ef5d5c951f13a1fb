// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "eval/dialogue_facts.h"
#include "eval/dialogue_topics.h"
#include "eval/task_words.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

constexpr auto kSpeakers = std::to_array<std::string_view>(
    {"Nora", "Felix", "Ingrid", "Tomas", "Clara", "Hugo", "Miriam", "Anton", "Selma", "Oscar", "Lydia", "Gustav"});
constexpr auto kReactions = std::to_array<std::string_view>(
    {"Oh, I know that feeling.", "That sounds like you.", "Really? I wouldn't have thought so.",
     "Ha, that made me laugh.", "I see what you mean.", "Well, good for you.", "How annoying.",
     "You are right about that.", "That is wonderful.", "Same here.", "I had no idea.", "Fair enough.",
     "Tell me more one day.", "It could have been worse.", "I am glad to hear it.", "Goodness."});
constexpr int64_t kLongestRun = 20;   // utterances about one topic at a time
constexpr int64_t kRunsOfATopic = 3;  // at least, where the dialogue is long enough for runs of four
constexpr int64_t kShortestRun = 4;

// A run of utterances about one topic.
struct TopicRun {
  int topic;
  int64_t begin, end;
};

// Topics in one random order after another, so that each returns after a while, never at once.
std::vector<TopicRun> schedule(int64_t utterances, int topics, SplitMix& random) {
  const int64_t longest = std::clamp(utterances / (kRunsOfATopic * topics), kShortestRun, kLongestRun);
  const int64_t shortest = std::max<int64_t>(longest / 2, 2);
  std::vector<TopicRun> runs;
  std::vector<int> order;
  for (int64_t begin = 0; begin < utterances;) {
    if (order.empty()) {
      for (int t = 0; t < topics; ++t) order.push_back(t);
      shuffle(order, random);
      if (!runs.empty() && topics > 1 && order.back() == runs.back().topic) std::swap(order.front(), order.back());
    }
    const int64_t length = shortest + int64_t(random.below(uint64_t(longest - shortest + 1)));
    runs.push_back({order.back(), begin, std::min(begin + length, utterances)});
    order.pop_back();
    begin += length;
  }
  return runs;
}

// Sentences about one topic; a template comes again only when all the others were used.
class Talk {
 public:
  Talk(const DialogueTopic& topic, SplitMix& random) : topic_(topic), random_(random) {}

  std::string opener() { return std::string(one_of(topic_.openers)); }
  std::string line() {
    if (left_.empty()) {
      left_ = topic_.lines;
      shuffle(left_, random_);
      if (left_.back() == last_) std::swap(left_.front(), left_.back());
    }
    const std::string_view pattern = last_ = left_.back();
    left_.pop_back();
    const size_t things = topic_.things.size(), thing = size_t(random_.below(things));
    const size_t other = (thing + 1 + size_t(random_.below(things - 1))) % things;
    return fmt::format(fmt::runtime(pattern), fmt::arg("thing", topic_.things[thing]),
                       fmt::arg("thing2", topic_.things[other]), fmt::arg("place", one_of(topic_.places)),
                       fmt::arg("extra", one_of(topic_.extras)));
  }

 private:
  std::string_view one_of(const std::vector<std::string_view>& words) {
    return words[size_t(random_.below(words.size()))];
  }

  const DialogueTopic& topic_;
  SplitMix& random_;
  std::vector<std::string_view> left_;
  std::string_view last_;
};

// Gives each fact an utterance of its own, by its teller and in a run of its topic.
class Placement {
 public:
  Placement(const std::vector<TopicRun>& runs, int64_t utterances, SplitMix& random)
      : runs_(runs), taken_(size_t(utterances)), random_(random) {}

  // Those that change first, since they need two places; the others spread over the runs of their topic.
  bool place(std::vector<PlannedFact>& facts, int topics) {
    std::vector<int64_t> of_topic(size_t(topics), 0);
    for (const PlannedFact& fact : facts) ++of_topic[size_t(fact.question.topic)];
    std::vector<int64_t> placed(size_t(topics), 0);
    for (const bool changing : {true, false})
      for (PlannedFact& fact : facts) {
        if (fact.question.old_answer.empty() == changing) continue;
        const size_t topic = size_t(fact.question.topic);
        const double share = (double(placed[topic]++) + random_.uniform()) / double(of_topic[topic]);
        if (changing ? !place_both(fact, share) : !place_one(fact, share)) return false;
      }
    return true;
  }

 private:
  std::vector<const TopicRun*> runs_of(int topic) const {
    std::vector<const TopicRun*> found;
    for (const TopicRun& run : runs_)
      if (run.topic == topic) found.push_back(&run);
    return found;
  }

  // Utterances of a run that the teller still has, from `first` on.
  std::vector<int64_t> free_in(const TopicRun& run, int owner, int64_t first = 0) const {
    std::vector<int64_t> found;
    for (int64_t i = std::max(run.begin, first); i < run.end; ++i)
      if (i % 2 == owner && !taken_[size_t(i)]) found.push_back(i);
    return found;
  }

  int64_t take(const std::vector<int64_t>& free) {
    const int64_t chosen = free[size_t(random_.below(free.size()))];
    taken_[size_t(chosen)] = true;
    return chosen;
  }

  bool place_one(PlannedFact& fact, double share) {
    const std::vector<const TopicRun*> runs = runs_of(fact.question.topic);
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::vector<int64_t> free =
          free_in(*runs[(size_t(share * double(runs.size())) + i) % runs.size()], fact.owner);
      if (free.empty()) continue;
      fact.question.told = take(free);
      return true;
    }
    return false;
  }

  bool place_both(PlannedFact& fact, double share) {
    const std::vector<const TopicRun*> runs = runs_of(fact.question.topic);
    // The telling in any run but the last, the update in any run after it.
    for (size_t i = 0; i + 1 < runs.size(); ++i) {
      const size_t tells = (size_t(share * double(runs.size() - 1)) + i) % (runs.size() - 1);
      const std::vector<int64_t> tellings = free_in(*runs[tells], fact.owner);
      std::vector<int64_t> updates;
      for (size_t later = tells + 1; later < runs.size(); ++later) {
        const std::vector<int64_t> more = free_in(*runs[later], fact.owner);
        updates.insert(updates.end(), more.begin(), more.end());
      }
      if (tellings.empty() || updates.empty()) continue;
      fact.question.told = take(tellings);
      fact.question.updated = take(updates);
      return true;
    }
    // Else both in one run.
    for (const TopicRun* run : runs)
      for (const int64_t telling : free_in(*run, fact.owner)) {
        const std::vector<int64_t> updates = free_in(*run, fact.owner, telling + 1);
        if (updates.empty()) continue;
        taken_[size_t(telling)] = true;
        fact.question.told = telling;
        fact.question.updated = take(updates);
        return true;
      }
    return false;
  }

  const std::vector<TopicRun>& runs_;
  std::vector<bool> taken_;
  SplitMix& random_;
};

void check(const DialogueOptions& options) {
  if (options.topics < 1 || options.topics > dialogue_topic_limit() || options.facts < 0 || options.updates < 0 ||
      options.updates > options.facts || options.utterances < 1)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a dialogue of {} utterances about {} topics with {} facts, {} of which change, can't be "
                    "made; it takes 1 to {} topics and no more changes than facts",
                    options.utterances, options.topics, options.facts, options.updates, dialogue_topic_limit()));
}

// What is said in each utterance beside the topic's sentences; empty where nothing is.
std::vector<std::string> planted_sentences(const std::vector<PlannedFact>& facts, int64_t utterances) {
  std::vector<std::string> sentences(static_cast<size_t>(utterances));
  for (const PlannedFact& fact : facts) {
    sentences[size_t(fact.question.told)] = telling_of(fact);
    if (fact.question.updated >= 0) sentences[size_t(fact.question.updated)] = update_of(fact);
  }
  return sentences;
}

void write_run(const TopicRun& run, Talk& talk, const std::vector<std::string>& planted, SplitMix& random,
               Dialogue& dialogue) {
  for (int64_t i = run.begin; i < run.end; ++i) {
    std::vector<std::string> parts;
    if (i == run.begin)
      parts.push_back(talk.opener());
    else if (random.below(2) == 0)
      parts.emplace_back(kReactions[size_t(random.below(kReactions.size()))]);
    const std::string& fact = planted[size_t(i)];
    const bool fact_first = random.below(2) == 0;
    if (!fact.empty() && fact_first) parts.push_back(fact);
    parts.push_back(talk.line());
    if (!fact.empty() && !fact_first) parts.push_back(fact);
    if (fact.empty() && random.below(2) == 0) parts.push_back(talk.line());
    dialogue.transcript.push_back({dialogue.speakers[size_t(i % 2)], fmt::format("{}", fmt::join(parts, " "))});
    dialogue.topic_of.push_back(run.topic);
  }
}

}  // namespace

int dialogue_topic_limit() {
  return int(dialogue_topics().size());
}

Dialogue make_dialogue(const DialogueOptions& options) {
  check(options);
  SplitMix seeds(options.seed);
  SplitMix cast(seeds.next()), place(seeds.next()), words(seeds.next());
  Dialogue dialogue;
  const size_t first = size_t(cast.below(kSpeakers.size()));
  const size_t second = (first + 1 + size_t(cast.below(kSpeakers.size() - 1))) % kSpeakers.size();
  dialogue.speakers = {std::string(kSpeakers[first]), std::string(kSpeakers[second])};
  std::vector<const DialogueTopic*> topics;
  for (const DialogueTopic& topic : dialogue_topics()) topics.push_back(&topic);
  shuffle(topics, cast);
  topics.resize(size_t(options.topics));
  for (const DialogueTopic* topic : topics) dialogue.topic_names.emplace_back(topic->name);

  std::vector<PlannedFact> facts = plan_facts(options, topics, dialogue.speakers, cast.next());
  const std::vector<TopicRun> runs = schedule(options.utterances, options.topics, place);
  if (!Placement(runs, options.utterances, place).place(facts, options.topics))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} utterances about {} topics have no room for {} facts, {} of which change; raise the "
                            "utterances or lower the others",
                            options.utterances, options.topics, options.facts, options.updates));

  std::vector<Talk> talks;
  for (const DialogueTopic* topic : topics) talks.emplace_back(*topic, words);
  const std::vector<std::string> planted = planted_sentences(facts, options.utterances);
  for (const TopicRun& run : runs) write_run(run, talks[size_t(run.topic)], planted, words, dialogue);

  for (PlannedFact& fact : facts) dialogue.questions.push_back(std::move(fact.question));
  std::sort(dialogue.questions.begin(), dialogue.questions.end(),
            [](const DialogueQuestion& a, const DialogueQuestion& b) { return a.told < b.told; });
  return dialogue;
}

}  // namespace kvasir
