// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/recall_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "base/random.h"
#include "eval/answer_f1.h"
#include "eval/asked_conversation.h"
#include "eval/cell_scores.h"
#include "eval/divergence_summary.h"
#include "eval/memory_method.h"
#include "eval/memory_setup.h"
#include "eval/task_sample.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;

constexpr int kFifths = 5;

bool needs_budget(const RecallOptions& options) {
  return std::any_of(options.methods.begin(), options.methods.end(),
                     [](const std::string& method) { return method != "full"; });
}

DialogueOptions dialogue_options(const RecallOptions& options) {
  constexpr int64_t kTopicTokens = 512;  // a topic with its facts takes some 460
  DialogueOptions dialogue;
  dialogue.topics =
      options.topics > 0 ? options.topics : int(std::clamp<int64_t>(options.length / kTopicTokens, 2, 12));
  dialogue.facts = options.facts > 0 ? options.facts : 2 * dialogue.topics;
  dialogue.updates = options.updates >= 0 ? options.updates : dialogue.facts / 4;
  return dialogue;
}

// A few draws of topics hold too few facts that can change; the next one is taken then. Throws Error invalid_argument
// for what none of them holds.
void draw_seed(SplitMix& mix, DialogueOptions& dialogue) {
  constexpr int kDraws = 16;
  dialogue.utterances = int64_t(100) * (dialogue.topics + dialogue.facts);
  for (int draw = 1;; ++draw) {
    dialogue.seed = mix.next();
    try {
      make_dialogue(dialogue);
      return;
    } catch (const Error&) {
      if (draw == kDraws) throw;
    }
  }
}

// A dialogue that fills options.length.
AskedConversation fitting_dialogue(const RecallOptions& options, int index) {
  SplitMix mix(options.seed * 0x9e3779b97f4a7c15ull + uint64_t(index));
  DialogueOptions dialogue = dialogue_options(options);
  draw_seed(mix, dialogue);
  const auto make = [&](int64_t utterances) {
    dialogue.utterances = utterances;
    return asked(make_dialogue(dialogue));
  };
  const auto tokens = [&](int64_t utterances) {
    const ConversationTokens text(*options.setup.model, make(utterances), options.setup.raw);
    return int64_t(text.history().size()) + text.longest_question(options.answer_tokens);
  };
  constexpr int64_t kUtteranceTokens = 35;  // a guess that only saves work
  // The fewest utterances that have room for topics and facts, within a fifth.
  int64_t least = std::max<int64_t>(dialogue.topics, dialogue.facts + dialogue.updates);
  const auto has_room = [&](int64_t utterances) {
    try {
      make(utterances);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  while (!has_room(least)) least += (least + 4) / 5;
  const int64_t utterances = largest_that_fits(least, options.length / kUtteranceTokens, options.length, tokens);
  if (utterances < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} tokens are too few for a dialogue about {} topics with {} facts, which takes {}; raise "
                            "-c or lower --facts and --topics",
                            options.length, dialogue.topics, dialogue.facts, tokens(least)));
  return make(utterances);
}

// The utterances that fit into the context, and the questions about them.
AskedConversation cut_to_fit(const RecallOptions& options, AskedConversation conversation, int64_t tokens) {
  const size_t all = conversation.transcript.size();
  const auto first = [&](int64_t utterances) {
    AskedConversation part = conversation;
    part.transcript.resize(size_t(utterances));
    part.texts.resize(size_t(utterances));
    std::erase_if(part.questions, [&](const AskedQuestion& question) {
      return question.told.empty() || *std::ranges::max_element(question.told) >= size_t(utterances);
    });
    for (AskedQuestion& question : part.questions) question.depth *= double(all) / double(utterances);
    return part;
  };
  const int64_t guess = int64_t(all) * options.setup.context / std::max<int64_t>(1, tokens);
  const int64_t utterances = largest_that_fits(1, std::min(guess, int64_t(all)), options.setup.context, [&](int64_t n) {
    if (n > int64_t(all)) return options.setup.context + 1;
    const ConversationTokens text(*options.setup.model, first(n), options.setup.raw);
    return int64_t(text.history().size()) + text.longest_question(options.answer_tokens);
  });
  if (utterances < 1)
    throw Error(ErrorCode::context_full, fmt::format("not even the first utterance of {} fits into a context of {}; "
                                                     "raise -c",
                                                     conversation.name, options.setup.context));
  return first(utterances);
}

AskedConversation fitting_recording(const RecallOptions& options, const RecordedConversation& recorded) {
  AskedConversation conversation = asked(recorded);
  const ConversationTokens text(*options.setup.model, conversation, options.setup.raw);
  const int64_t tokens = int64_t(text.history().size()) + text.longest_question(options.answer_tokens);
  if (tokens > options.setup.context) {
    if (!options.cut)
      throw Error(
          ErrorCode::context_full,
          fmt::format("{} takes {} tokens, the context holds {}; raise -c, or give --cut for the part that fits",
                      conversation.name, tokens, options.setup.context));
    conversation = cut_to_fit(options, std::move(conversation), tokens);
  }
  const size_t count = conversation.questions.size();
  if (options.questions > 0 && size_t(options.questions) < count) {
    std::vector<AskedQuestion> chosen;
    for (int i = 0; i < options.questions; ++i)
      chosen.push_back(conversation.questions[size_t(i) * count / size_t(options.questions)]);
    conversation.questions = std::move(chosen);
  }
  return conversation;
}

std::vector<AskedConversation> conversations(const RecallOptions& options) {
  std::vector<AskedConversation> result;
  for (const std::string& file : options.files)
    for (const RecordedConversation& recorded : read_conversations(file))
      result.push_back(fitting_recording(options, recorded));
  if (options.files.empty())
    for (int index = 0; index < options.chats; ++index) result.push_back(fitting_dialogue(options, index));
  for (const AskedConversation& conversation : result)
    if (conversation.questions.empty())
      throw Error(ErrorCode::invalid_argument, "there is no question about " + conversation.name +
                                                   " that its utterances can answer; give another file or raise -c");
  return result;
}

struct MethodScores {
  CellScores all, updated;
  std::map<int, CellScores> cells;  // by fifth, or by category
  int stale = 0, routed = 0, routable = 0;
  MemoryCost cost;
};

// Of the same questions in the same order.
void write_difference(const char* name, std::span<const double> ours, std::span<const double> first, Json& out) {
  if (ours.size() != first.size())
    throw Error(ErrorCode::internal, fmt::format("{} questions against {}", ours.size(), first.size()));
  std::vector<double> differences(ours.begin(), ours.end());
  for (size_t i = 0; i < first.size(); ++i) differences[i] -= first[i];
  const MeanError error = mean_error(differences);
  out[name] = error.mean;
  out[std::string(name) + "_se"] = error.se;
}

// `first`: what the first method has; null for itself.
Json method_json(const MethodScores& scores, const CellScores* first) {
  Json json;
  scores.all.write(json);
  json["scores"] = scores.all.scores();
  json["answer_logprobs"] = scores.all.log_likelihoods();
  if (first) {
    Json& against = json["against_first"];
    write_difference("score", scores.all.scores(), first->scores(), against);
    write_difference("answer_logprob", scores.all.log_likelihoods(), first->log_likelihoods(), against);
  }
  write_use(scores.cost.use, json);
  json["peak_bytes"] = scores.cost.peak_bytes;
  json["tokens_read"] = scores.cost.tokens_read;
  json["reading_seconds"] = scores.cost.reading_seconds;
  json["asking_seconds"] = scores.cost.asking_seconds;
  if (scores.updated.count() > 0)
    json["updated"] = {{"score", scores.updated.score()},
                       {"n", scores.updated.count()},
                       {"stale", double(scores.stale) / double(scores.updated.count())}};
  if (scores.routable > 0) json["routed"] = double(scores.routed) / double(scores.routable);
  return json;
}

class Recall {
 public:
  explicit Recall(const RecallOptions& options)
      : options_(options),
        conversations_(conversations(options)),
        encoder_(make_encoder(options.encoder, options.setup.model, options.setup.threads)) {
    if (needs_budget(options) && options.alpha > 0)
      profile_ = model_profile(options.setup.model, options.setup.threads, options.setup.note, options.setup.progress);
    for (const AskedConversation& conversation : conversations_)
      total_ += int64_t(conversation.questions.size() * options.methods.size());
  }

  Json run() {
    Json methods = Json::object(), cells = Json::array(), result;
    std::optional<CellScores> first;
    for (const std::string& method : options_.methods) {
      const MethodScores scores = ask(method);
      methods[method] = method_json(scores, first ? &*first : nullptr);
      if (!first) first = scores.all;
      for (const auto& [key, cell] : scores.cells) {
        Json entry = {{"method", method}};
        if (options_.files.empty())
          entry["depth"] = 100 / kFifths * key;
        else
          entry["category"] = key;
        cell.write(entry);
        cells.push_back(entry);
      }
      if (method != options_.methods[0]) continue;
      scores.all.write(result);
      write_use(scores.cost.use, result);
      result["nonfinite"] = nonfinite_;
    }
    result["methods"] = methods;
    result["cells"] = cells;
    result["budgets"] = budgets_;
    result["block"] = blocks_;
    result["tokens"] = tokens_;
    result["budget_ratio"] = options_.budget_ratio;
    result["length"] = options_.length;
    if (options_.files.empty()) {
      const DialogueOptions dialogue = dialogue_options(options_);
      result["topics"] = dialogue.topics;
      result["facts"] = dialogue.facts;
      result["updates"] = dialogue.updates;
    }
    result["chats"] = conversations_.size();
    result["seed"] = options_.seed;
    result["encoder"] = encoder_->name();
    result["episodes"] = options_.episodes;
    result["alpha"] = options_.alpha;
    result["match"] = options_.match_centroids ? "centroid" : "segment";
    return result;
  }

 private:
  MethodScores ask(const std::string& name) {
    MethodScores scores;
    budgets_.clear();
    blocks_.clear();
    tokens_.clear();
    for (const AskedConversation& conversation : conversations_) {
      const ConversationTokens tokens(*options_.setup.model, conversation, options_.setup.raw);
      const std::unique_ptr<MemoryMethod> method = make_method(name, tokens);
      method->read(tokens);
      CellScores here;
      for (size_t i = 0; i < conversation.questions.size(); ++i)
        ask(*method, conversation.questions[i], tokens.questions()[i], here, scores);
      scores.all.add(here);
      const MemoryCost cost = method->cost();
      scores.cost.use = cost.use;
      scores.cost.peak_bytes = std::max(scores.cost.peak_bytes, cost.peak_bytes);
      scores.cost.tokens_read += cost.tokens_read;
      scores.cost.reading_seconds += cost.reading_seconds;
      scores.cost.asking_seconds += cost.asking_seconds;
      if (method->cache()) nonfinite_ += method->cache()->stats().nonfinite;
      if (options_.setup.note)
        options_.setup.note(fmt::format("{}, {}: {} tokens, {:.3f} of {} questions, {} bytes, read in {:.0f} s", name,
                                        conversation.name, tokens.history().size(), here.score(), here.count(),
                                        cost.use.bytes, cost.reading_seconds));
    }
    return scores;
  }

  void ask(MemoryMethod& method, const AskedQuestion& question, const AskedTokens& tokens, CellScores& here,
           MethodScores& scores) {
    const auto holds = [](std::string_view text, const std::string& answer) {
      return answer_score(text, {answer}) == 1.0;
    };
    const auto enough = [&](std::string_view text) { return !question.brief && holds(text, question.answer); };
    const ReadAnswer answer =
        method.ask(question.text, {tokens.question, tokens.right_answer, options_.answer_tokens, enough});
    const std::string first_line = answer.text.substr(0, answer.text.find('\n', answer.text.find_first_not_of(" \n")));
    const double score = question.brief ? answer_f1(first_line, question.answer) : holds(answer.text, question.answer);
    here.add(score, answer);
    const int fifth = std::min(kFifths - 1, int(question.depth * kFifths));
    scores.cells[options_.files.empty() ? fifth : question.category].add(score, answer);
    if (!question.old_answer.empty()) {
      scores.updated.add(score, answer);
      scores.stale += score == 0 && holds(answer.text, question.old_answer) ? 1 : 0;
    }
    if (const std::optional<bool> routed = method.routed_to(question.told); routed && !question.told.empty()) {
      ++scores.routable;
      scores.routed += *routed ? 1 : 0;
    }
    if (options_.setup.progress) options_.setup.progress(++done_, total_);
  }

  std::unique_ptr<MemoryMethod> make_method(const std::string& name, const ConversationTokens& tokens) {
    const int64_t history = int64_t(tokens.history().size());
    MemoryMethodOptions method;
    method.budget = options_.budget > 0 ? options_.budget : std::llround(options_.budget_ratio * double(history));
    method.block = selection_block(options_.block, method.budget);
    method.episodes = options_.episodes;
    method.representatives = options_.representatives;
    method.match_segments = !options_.match_centroids;
    method.encoder = encoder_.get();
    if (name != "full")
      method.layer_budgets = profile_
                                 ? profiled_budgets(*options_.setup.model, *profile_, method.budget, options_.alpha)
                                 : uniform_budgets(*options_.setup.model, method.budget);
    budgets_.push_back(method.budget);
    blocks_.push_back(method.block);
    tokens_.push_back(history);
    // A prompt that tokens are judged by reads on behind the past.
    const int64_t room = history + std::max<int64_t>(tokens.longest_question(options_.answer_tokens), 4096);
    return make_memory_method(name, options_.setup, room, method);
  }

  const RecallOptions& options_;
  std::vector<AskedConversation> conversations_;
  std::unique_ptr<Encoder> encoder_;
  std::optional<LayerProfile> profile_;
  std::vector<int64_t> budgets_, blocks_, tokens_;  // of each conversation
  int64_t done_ = 0, total_ = 0;
  uint64_t nonfinite_ = 0;
};

}  // namespace

void check_recall(const RecallOptions& options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  const std::vector<std::string> known = memory_methods();
  if (options.methods.empty()) refuse("--method names no method");
  for (const std::string& method : options.methods)
    if (std::find(known.begin(), known.end(), method) == known.end())
      refuse(fmt::format("--method {} isn't there; choose {}", method, fmt::join(known, ", ")));
  if (!(options.budget_ratio >= 0 && options.budget_ratio <= 1))
    refuse(fmt::format("--budget-ratio takes a share above 0 and up to 1, got {}", options.budget_ratio));
  if (options.budget < 0) refuse(fmt::format("--budget takes 1 or more tokens, got {}", options.budget));
  if (needs_budget(options) && (options.budget > 0) == (options.budget_ratio > 0))
    refuse("a method that drops tokens needs --budget TOKENS or --budget-ratio SHARE, one of them");
  if (!(options.alpha >= 0 && options.alpha <= 100))
    refuse(fmt::format("--alpha takes 0 to 100, got {}", options.alpha));
  if (options.block < 0 || options.questions < 0)
    refuse(fmt::format("--block and --questions take 0 and more, got {} and {}", options.block, options.questions));
  if (options.episodes < 1 || options.representatives < 1)
    refuse(fmt::format("--episodes and --representatives take 1 or more, got {} and {}", options.episodes,
                       options.representatives));
  if (options.chats < 1 || options.answer_tokens < 1)
    refuse(fmt::format("--chats and -n take 1 or more, got {} and {}", options.chats, options.answer_tokens));
  if (options.files.empty()) {
    DialogueOptions dialogue = dialogue_options(options);
    SplitMix mix(options.seed);
    draw_seed(mix, dialogue);  // throws for what can't be made
  }
}

Json run_recall(const RecallOptions& options) {
  check_recall(options);
  if (options.files.empty() && options.length > options.setup.context)
    throw Error(ErrorCode::invalid_argument, fmt::format("a dialogue of {} tokens doesn't fit into the context of {}; "
                                                         "raise -c",
                                                         options.length, options.setup.context));
  return Recall(options).run();
}

}  // namespace kvasir
