// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/dialogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "episode/episodes.h"
#include "episode/segments.h"
#include "episode/word_encoder.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

DialogueOptions of_size(int64_t utterances, int topics, int facts, int updates, uint64_t seed = 42) {
  DialogueOptions options;
  options.seed = seed;
  options.utterances = utterances;
  options.topics = topics;
  options.facts = facts;
  options.updates = updates;
  return options;
}

// The utterances that hold the words, whole.
std::vector<int64_t> holders(const Dialogue& dialogue, const std::string& words) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::vector<int64_t> found;
  for (size_t i = 0; i < dialogue.transcript.size(); ++i) {
    const std::string& text = dialogue.transcript[i].text;
    for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
      const size_t end = at + words.size();
      if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) continue;
      found.push_back(int64_t(i));
    }
  }
  return found;
}

void check_dialogue(const Dialogue& dialogue, const DialogueOptions& options) {
  ASSERT_EQ(dialogue.transcript.size(), size_t(options.utterances));
  ASSERT_EQ(dialogue.topic_of.size(), size_t(options.utterances));
  ASSERT_EQ(dialogue.questions.size(), size_t(options.facts));
  std::set<std::string> answers, questions;
  int updates = 0;
  for (const DialogueQuestion& question : dialogue.questions) {
    const std::string& topic = dialogue.topic_names[size_t(question.topic)];
    EXPECT_NE(question.text.find(topic), std::string::npos) << question.text;
    EXPECT_TRUE(questions.insert(question.text).second) << question.text;
    EXPECT_TRUE(answers.insert(question.answer).second) << question.answer;
    EXPECT_EQ((question.text + question.answer_prefix).find(question.answer), std::string::npos);
    EXPECT_EQ(dialogue.topic_of[size_t(question.told)], question.topic);
    const int64_t last = question.updated < 0 ? question.told : question.updated;
    EXPECT_EQ(holders(dialogue, question.answer), std::vector<int64_t>{last}) << question.answer;
    // Who tells it is whom the question is about.
    const std::string& teller = dialogue.transcript[size_t(question.told)].speaker;
    EXPECT_NE(question.text.find(teller), std::string::npos) << question.text;
    EXPECT_NE(question.answer_prefix.find(teller), std::string::npos) << question.answer_prefix;
    EXPECT_EQ(question.old_answer.empty(), question.updated < 0);
    if (question.updated < 0) continue;
    ++updates;
    EXPECT_LT(question.told, question.updated);
    EXPECT_EQ(dialogue.topic_of[size_t(question.updated)], question.topic);
    EXPECT_EQ(dialogue.transcript[size_t(question.updated)].speaker, teller);
    EXPECT_TRUE(answers.insert(question.old_answer).second) << question.old_answer;
    const std::vector<int64_t> old = holders(dialogue, question.old_answer);
    ASSERT_FALSE(old.empty());
    EXPECT_EQ(old[0], question.told);
    EXPECT_TRUE(old.size() == 1 || (old.size() == 2 && old[1] == question.updated)) << question.old_answer;
  }
  EXPECT_EQ(updates, options.updates);
  EXPECT_TRUE(std::is_sorted(dialogue.questions.begin(), dialogue.questions.end(),
                             [](const auto& a, const auto& b) { return a.told < b.told; }));
  for (size_t i = 0; i < dialogue.transcript.size(); ++i) {
    EXPECT_EQ(dialogue.transcript[i].speaker, dialogue.speakers[i % 2]);
    EXPECT_EQ(dialogue.transcript[i].text.find_first_of("{}"), std::string::npos) << dialogue.transcript[i].text;
  }
}

TEST(Dialogue, EveryFactIsToldOnceAndItsAnswersAreItsOwn) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    for (const DialogueOptions& options :
         {of_size(40, 3, 6, 2, seed), of_size(400, 12, 24, 8, seed), of_size(900, 14, 90, 40, seed),
          of_size(200, 1, 6, 2, seed), of_size(10, 2, 0, 0, seed), of_size(1, 5, 0, 0, seed)})
      check_dialogue(make_dialogue(options), options);
}

TEST(Dialogue, TopicsReturn) {
  const Dialogue dialogue = make_dialogue(of_size(500, 12, 24, 8));
  EXPECT_GE(dialogue_topic_limit(), 12);
  std::vector<int> runs(12);
  for (size_t i = 0; i < dialogue.topic_of.size(); ++i)
    if (i == 0 || dialogue.topic_of[i] != dialogue.topic_of[i - 1]) ++runs[size_t(dialogue.topic_of[i])];
  for (const int count : runs) EXPECT_GE(count, 3);
  EXPECT_EQ(std::set<std::string>(dialogue.topic_names.begin(), dialogue.topic_names.end()).size(), 12u);
}

// Told and updated in one run, a fact would be seen whole by whatever keeps the run.
TEST(Dialogue, UpdatesComeInALaterRun) {
  const Dialogue dialogue = make_dialogue(of_size(500, 12, 36, 14));
  for (const DialogueQuestion& question : dialogue.questions) {
    if (question.updated < 0) continue;
    bool other_topic = false;
    for (int64_t i = question.told; i < question.updated; ++i)
      other_topic = other_topic || dialogue.topic_of[size_t(i)] != question.topic;
    EXPECT_TRUE(other_topic) << question.text;
  }
}

TEST(Dialogue, FactsAreSpreadOverTheWholeLength) {
  std::vector<int> told(5), last(5);
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (const DialogueQuestion& question : make_dialogue(of_size(1000, 12, 48, 12, seed)).questions) {
      ++told[size_t(question.told / 200)];
      ++last[size_t(std::max(question.told, question.updated) / 200)];
    }
  for (size_t fifth = 0; fifth < 5; ++fifth) {
    EXPECT_GE(last[fifth], 35) << fifth;  // of 480; updates come late
    EXPECT_GE(told[fifth], 35) << fifth;
  }
}

TEST(Dialogue, DependsOnTheSeedAndItsFactsNotOnTheLength) {
  const Dialogue first = make_dialogue(of_size(400, 12, 24, 8)), again = make_dialogue(of_size(400, 12, 24, 8));
  EXPECT_EQ(first.transcript, again.transcript);
  EXPECT_NE(first.transcript, make_dialogue(of_size(400, 12, 24, 8, 43)).transcript);
  const auto facts = [](const Dialogue& dialogue) {
    std::set<std::string> all;
    for (const DialogueQuestion& question : dialogue.questions)
      all.insert(question.text + question.answer + question.old_answer);
    return all;
  };
  EXPECT_EQ(facts(first), facts(make_dialogue(of_size(2000, 12, 24, 8))));
}

TEST(Dialogue, SameSentencesAreRare) {
  const Dialogue dialogue = make_dialogue(of_size(400, 12, 24, 8));
  std::set<std::string> texts;
  for (const Utterance& utterance : dialogue.transcript) texts.insert(utterance.text);
  EXPECT_GE(texts.size(), 398u);
}

TEST(Dialogue, Refuses) {
  for (const DialogueOptions& options :
       {of_size(0, 2, 0, 0), of_size(100, 0, 0, 0), of_size(100, 99, 1, 0), of_size(100, 2, 3, 4),
        of_size(100, 2, -1, 0), of_size(9, 2, 9, 0), of_size(100000, 1, 100, 0), of_size(100000, 2, 12, 12)})
    EXPECT_THROW(make_dialogue(options), Error) << options.utterances << " " << options.topics << " " << options.facts;
}

TEST(Dialogue, LongOnesTakeLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(make_dialogue(of_size(300000, 14, 60, 20)).transcript.size(), 300000u);  // 45 MB
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 30.0);
}

struct Clustered {
  WordEncoder encoder;
  Episodes episodes;
};

Clustered clustered(const std::vector<std::string>& texts, int count) {
  Clustered result;
  result.encoder.learn(texts);
  EpisodeOptions options;
  options.episodes = count;
  result.episodes = Episodes(result.encoder.encode_segments(texts), options);
  return result;
}

// What the generator is for: segments of a topic resemble each other, and a question finds the episode that holds most
// of its topic. Segments that two topics share, a fifth of all, are in one or the other.
TEST(Dialogue, QuestionsFindTheirEpisode) {
  for (const int count : {4, 12}) {
    int asked = 0, found = 0;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Dialogue dialogue = make_dialogue(of_size(800, 12, 48, 16, seed));
      Clustered past = clustered(segment_texts(make_segments(dialogue.transcript)), count);
      std::vector<std::vector<int>> utterances(12, std::vector<int>(size_t(count)));
      for (size_t i = 0; i < dialogue.topic_of.size(); ++i)
        ++utterances[size_t(dialogue.topic_of[i])][size_t(past.episodes.episode_of_segment()[i / kSegmentUtterances])];
      for (const DialogueQuestion& question : dialogue.questions) {
        const std::vector<int>& of_topic = utterances[size_t(question.topic)];
        const auto most = std::max_element(of_topic.begin(), of_topic.end()) - of_topic.begin();
        found += past.episodes.match(past.encoder.encode_query(question.text)).episode == most;
        ++asked;
      }
    }
    EXPECT_GE(found, asked * 9 / 10) << found << " of " << asked << " with " << count;
  }
}

TEST(Dialogue, NewTopicsAreFarFromOldEpisodes) {
  double known = 1, unknown = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Dialogue dialogue = make_dialogue(of_size(800, 12, 48, 16, seed));
    std::vector<std::string> past, later, strange;  // the last are of topics 6-11
    for (const TranscriptSegment& segment : make_segments(dialogue.transcript)) {
      const int topic = dialogue.topic_of[segment.first];
      if (topic != dialogue.topic_of[segment.first + segment.count - 1]) continue;
      (topic >= 6 ? strange : segment.first < 400 ? past : later).push_back(segment.text);
    }
    Clustered old = clustered(past, 4);
    std::vector<double> cosines;
    for (const auto& vector : old.encoder.encode_segments(later)) cosines.push_back(old.episodes.match(vector).cosine);
    std::sort(cosines.begin(), cosines.end());
    known = std::min(known, cosines[cosines.size() / 20]);
    cosines.clear();
    for (const auto& vector : old.encoder.encode_segments(strange))
      cosines.push_back(old.episodes.match(vector).cosine);
    std::sort(cosines.begin(), cosines.end());
    unknown = std::max(unknown, cosines[cosines.size() * 19 / 20]);
  }
  EXPECT_GT(known, 0.15);
  EXPECT_LT(unknown, 0.12);
}

}  // namespace
}  // namespace kvasir
