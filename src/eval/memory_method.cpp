// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/memory_method.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <utility>

#include "cache/scoped_sequence.h"
#include "host/block_prefill.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// In our own words, for what the papers ask: InfiniPot's catalyst prompt and KVzip's repetition.
constexpr const char* kSummaryRequest = "Sum up the conversation above, and name the parts that matter most.";
constexpr const char* kRepeatRequest = "Say the conversation above again, word for word.";

class Seconds {
 public:
  explicit Seconds(double& total) : total_(total) {}
  ~Seconds() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Seconds(const Seconds&) = delete;
  Seconds& operator=(const Seconds&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

EngineOptions answering_options(const EvalSetup& setup, int64_t context) {
  EngineOptions options;
  options.cache = setup.kv.cache;
  options.context = context;
  options.micro_batch = int(std::min<int64_t>(setup.micro_batch, context));
  options.threads = setup.threads;
  return options;
}

class FullMemory : public MemoryMethod {
 public:
  FullMemory(const EvalSetup& setup, int64_t context) : reader_(make_reader(setup, context)) {}

  void read(const ConversationTokens& conversation) override {
    const Seconds seconds(cost_.reading_seconds);
    reader_->restart();
    const std::vector<int32_t> history = conversation.history();
    reader_->read(history);
    cost_.tokens_read += int64_t(history.size());
  }
  ReadAnswer ask(const std::string&, const ReadQuestion& question) override {
    const Seconds seconds(cost_.asking_seconds);
    ReadAnswer answer = reader_->ask(question);
    cost_.use = reader_->use();
    cost_.peak_bytes = std::max(cost_.peak_bytes, cost_.use.bytes);
    return answer;
  }
  MemoryCost cost() const override { return cost_; }
  const Cache* cache() const override { return reader_->cache(); }

 private:
  std::unique_ptr<ContextReader> reader_;
  MemoryCost cost_;
};

// Two engines of one model: one reads in 16 bits, the other answers.
class EnginePair : public MemoryMethod {
 public:
  EnginePair(const EvalSetup& setup, int64_t context)
      : reading_(setup.model, reading_options(answering_options(setup, context))),
        answering_(setup.model, answering_options(setup, context)) {
    if (setup.on_cache) setup.on_cache(answering_.cache());
  }
  MemoryCost cost() const override { return cost_; }
  const Cache* cache() const override { return &answering_.cache(); }

 protected:
  Engine reading_, answering_;
  MemoryCost cost_;
};

// One cache for the whole conversation, with an eviction of tokens.
class SelectedMemory : public EnginePair {
 public:
  // What a block is judged by, as text: the request, and how the answer to it begins.
  using Request = std::function<std::vector<int32_t>(const ConversationTokens&, std::span<const int32_t> block)>;

  SelectedMemory(const EvalSetup& setup, int64_t context, SelectionOptions selection, Request request)
      : EnginePair(setup, context), selection_(std::move(selection)), request_(std::move(request)) {}
  ~SelectedMemory() override { forget(); }

  void read(const ConversationTokens& conversation) override {
    const Seconds seconds(cost_.reading_seconds);
    forget();
    SelectionOptions selection = selection_;
    if (request_)
      selection.prompt = [this, &conversation](std::span<const int32_t> block) {
        return request_(conversation, block);
      };
    BlockPrefill prefill(reading_, selection);
    prefill.append(conversation.history());
    prefill.finish();
    sequence_ = answering_.cache().seal(reading_.cache(), prefill.sequence());
    cost_.peak_bytes = std::max(cost_.peak_bytes, prefill.peak_bytes());
    cost_.tokens_read += prefill.tokens_read();
  }
  ReadAnswer ask(const std::string&, const ReadQuestion& question) override {
    const Seconds seconds(cost_.asking_seconds);
    return ask_in_fork(answering_, sequence_, question, &cost_.use);
  }

 private:
  void forget() {
    if (sequence_ >= 0) answering_.cache().remove(std::exchange(sequence_, -1));
  }
  SelectionOptions selection_;
  Request request_;
  SequenceId sequence_ = -1;
};

class EpisodicMethod : public EnginePair {
 public:
  EpisodicMethod(const EvalSetup& setup, int64_t context, const MemoryMethodOptions& options)
      : EnginePair(setup, context), encoder_(*options.encoder) {
    options_.budgets = options.layer_budgets;
    options_.block = options.block;
    options_.episodes = options.episodes;
    options_.representatives = options.representatives;
    options_.match_segments = options.match_segments;
  }

  void read(const ConversationTokens& conversation) override {
    const Seconds seconds(cost_.reading_seconds);
    EpisodicOptions options = options_;
    options.prompt = [&conversation](const std::string& request, const std::string& excerpts) {
      return conversation.request(request, excerpts);
    };
    memory_.reset();
    memory_ = std::make_unique<EpisodicMemory>(reading_, answering_, encoder_, options);
    memory_->read(conversation.opening(), conversation.turns());
    cost_.peak_bytes = std::max(cost_.peak_bytes, memory_->peak_bytes() + memory_->bytes());
    cost_.tokens_read += memory_->tokens_read();
  }
  ReadAnswer ask(const std::string& text, const ReadQuestion& question) override {
    const Seconds seconds(cost_.asking_seconds);
    const EpisodicMemory::Retrieved found = memory_->retrieve(text);
    episode_ = found.episode;
    CacheUse one;
    ReadAnswer answer = ask_in_fork(answering_, found.sequence, question, &one);
    cost_.use = {one.bits_per_value, memory_->bytes(), one.bytes_f16};
    return answer;
  }
  std::optional<bool> routed_to(std::span<const size_t> utterances) const override {
    const std::vector<TranscriptSegment>& segments = memory_->record().segments;
    return std::ranges::any_of(memory_->episodes().members(episode_), [&](size_t member) {
      return std::ranges::any_of(utterances, [&](size_t utterance) {
        return utterance >= segments[member].first && utterance < segments[member].first + segments[member].count;
      });
    });
  }

 private:
  Encoder& encoder_;
  EpisodicOptions options_;
  std::unique_ptr<EpisodicMemory> memory_;
  int episode_ = 0;  // that answered last
};

// Text retrieval: the segments most like the question, as many as fit, read anew for each question.
class RetrievalMemory : public MemoryMethod {
 public:
  RetrievalMemory(const EvalSetup& setup, int64_t context, const MemoryMethodOptions& options)
      : engine_(setup.model, answering_options(setup, context)), encoder_(*options.encoder), budget_(options.budget) {
    if (setup.on_cache) setup.on_cache(engine_.cache());
  }

  void read(const ConversationTokens& conversation) override {
    const Seconds seconds(cost_.reading_seconds);
    opening_ = conversation.opening();
    turns_ = conversation.turns();
    Transcript transcript;
    for (const MemoryTurn& turn : turns_) transcript.push_back(turn.utterance);
    segments_ = make_segments(transcript);
    const std::vector<std::string> texts = segment_texts(segments_);
    encoder_.learn(texts);
    vectors_ = encoder_.encode_segments(texts);
  }
  ReadAnswer ask(const std::string& text, const ReadQuestion& question) override {
    const Seconds seconds(cost_.asking_seconds);
    const std::vector<int32_t> tokens = retrieved(encoder_.encode_query(text));
    const ScopedSequence sequence(engine_.cache(), engine_.cache().create());
    if (!tokens.empty()) engine_.decode(sequence.id(), tokens);
    cost_.tokens_read += int64_t(tokens.size());
    ReadAnswer answer = ask_in_fork(engine_, sequence.id(), question, &cost_.use);
    cost_.peak_bytes = std::max(cost_.peak_bytes, cost_.use.bytes);
    return answer;
  }
  MemoryCost cost() const override { return cost_; }
  const Cache* cache() const override { return &engine_.cache(); }

 private:
  std::vector<int32_t> retrieved(const std::vector<float>& query) const {
    std::vector<size_t> order(segments_.size());
    std::iota(order.begin(), order.end(), size_t(0));
    const auto likeness = [&](size_t i) {
      return std::inner_product(query.begin(), query.end(), vectors_[i].begin(), 0.0f);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return likeness(a) > likeness(b); });
    int64_t left = budget_ - int64_t(opening_.size());
    std::vector<size_t> chosen;
    for (const size_t i : order) {
      int64_t size = 0;
      for (size_t t = segments_[i].first; t < segments_[i].first + segments_[i].count; ++t)
        size += int64_t(turns_[t].tokens.size());
      if (size > left) continue;
      left -= size;
      chosen.push_back(i);
    }
    std::sort(chosen.begin(), chosen.end());
    std::vector<int32_t> tokens = opening_;
    for (const size_t i : chosen)
      for (size_t t = segments_[i].first; t < segments_[i].first + segments_[i].count; ++t)
        tokens.insert(tokens.end(), turns_[t].tokens.begin(), turns_[t].tokens.end());
    return tokens;
  }

  Engine engine_;
  Encoder& encoder_;
  int64_t budget_;
  std::vector<int32_t> opening_;
  std::vector<MemoryTurn> turns_;
  std::vector<TranscriptSegment> segments_;
  std::vector<std::vector<float>> vectors_;
  MemoryCost cost_;
};

}  // namespace

std::vector<std::string> memory_methods() {
  return {"full", "streaming", "snapkv", "keydiff", "infinipot", "kvzip", "epicache", "rag"};
}

std::unique_ptr<MemoryMethod> make_memory_method(const std::string& name, const EvalSetup& setup, int64_t context,
                                                 const MemoryMethodOptions& options) {
  if (name == "full") return std::make_unique<FullMemory>(setup, context);
  if (setup.kv.native)
    throw Error(ErrorCode::invalid_argument,
                "llama.cpp's own cache can't drop tokens of single heads: --method " + name + " takes Kvasir's --kv");
  if (name == "epicache") return std::make_unique<EpisodicMethod>(setup, context, options);
  if (name == "rag") return std::make_unique<RetrievalMemory>(setup, context, options);
  SelectionOptions selection;
  selection.budgets = options.layer_budgets;
  selection.block = options.block;
  SelectedMemory::Request request;
  if (name == "streaming") {
    selection.method = SelectionMethod::recent;
  } else if (name == "snapkv") {
    selection.method = SelectionMethod::window;
    selection.head_floor = 1.0;  // each head has its own best, as published
  } else if (name == "keydiff") {
    selection.method = SelectionMethod::key_difference;
    selection.head_floor = 1.0;
  } else if (name == "infinipot") {
    request = [](const ConversationTokens& conversation, std::span<const int32_t>) {
      return conversation.request(kSummaryRequest, "");
    };
  } else if (name == "kvzip") {
    request = [](const ConversationTokens& conversation, std::span<const int32_t> block) {
      std::vector<int32_t> tokens = conversation.request(kRepeatRequest, "");
      tokens.insert(tokens.end(), block.begin(), block.end());
      return tokens;
    };
  } else {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--method {} isn't there; choose {}", name, fmt::join(memory_methods(), ", ")));
  }
  return std::make_unique<SelectedMemory>(setup, context, std::move(selection), std::move(request));
}

}  // namespace kvasir
