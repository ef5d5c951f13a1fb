// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/needle_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "eval/cell_scores.h"
#include "eval/filler.h"
#include "eval/hidden_needle.h"
#include "eval/task_prompt.h"
#include "eval/task_words.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

constexpr std::string_view kKind = "numbers";
constexpr int kDigits = 7;

struct PlacedNeedle {
  double depth = 0;
  HiddenNeedle needle;
  Tokens sentence;
  TaskPrompt prompt;
  size_t place = 0;  // sentences of filler before it

  std::vector<std::string> answers() const { return {needle.value}; }
};

void append(Tokens& tokens, std::span<const int32_t> more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
}

// One haystack of one length: the filler's sentences and the needles with their places between them.
struct Haystack {
  Tokens head;                        // template and instruction
  std::vector<Tokens> sentences;      // of filler
  std::vector<PlacedNeedle> needles;  // in order of depth

  // Filler from the `first` sentence to before the `last`.
  Tokens between(size_t first, size_t last) const {
    Tokens tokens;
    for (size_t i = first; i < last; ++i) append(tokens, sentences[i]);
    return tokens;
  }
};

class NeedleRun {
 public:
  explicit NeedleRun(const NeedleOptions& options)
      : options_(options),
        model_(*options.setup.model),
        filler_(prose(options.text, options.seed)),
        longest_(*std::max_element(options.lengths.begin(), options.lengths.end())),
        reader_(make_reader(options.setup, longest_)) {}

  void run_haystack(int64_t length, int repeat, std::map<double, CellScores>& cells) {
    const Haystack haystack = make(length, repeat);
    options_.mode == NeedleMode::single ? ask_each_alone(haystack, cells) : ask_all(haystack, cells);
    if (length == longest_) use_ = reader_->use();
  }

  const ContextReader& reader() const { return *reader_; }
  const CacheUse& use() const { return use_; }
  std::function<void()> on_question;

 private:
  PlacedNeedle place(double depth, TaskWords& words) const {
    PlacedNeedle placed;
    placed.depth = depth;
    placed.needle.key = words.key();
    placed.needle.value = words.number(kDigits);
    placed.sentence = tokenize_continuation(model_, ".", " " + needle_sentence(placed.needle, kKind), false);
    TaskSample sample;
    sample.context = needle_instruction(kKind);
    sample.question = needle_question({placed.needle.key}, kKind, false);
    sample.answer_prefix = needle_answer_prefix({placed.needle.key}, kKind, false);
    sample.answers = placed.answers();
    placed.prompt = tokenize_sample(model_, sample, options_.setup.raw);
    return placed;
  }

  Haystack make(int64_t length, int repeat) const {
    SplitMix mix(options_.seed * 0x9e3779b97f4a7c15ull + uint64_t(repeat));
    TaskWords words(mix.next());
    Haystack haystack;
    size_t largest = 0, together = 0;
    for (const double depth : options_.depths) {
      haystack.needles.push_back(place(depth, words));
      const PlacedNeedle& placed = haystack.needles.back();
      const size_t answer = std::max(size_t(options_.answer_tokens), placed.prompt.right_answer.size());
      const size_t fixed = placed.prompt.head.size() + placed.prompt.tail.size() + answer;
      largest = std::max(largest, fixed + (options_.mode == NeedleMode::single ? placed.sentence.size() : 0));
      if (options_.mode == NeedleMode::multi) together += placed.sentence.size();
    }
    haystack.head = haystack.needles[0].prompt.head;
    const size_t taken = largest + together;
    // Each repeat starts in another place of the filler.
    const size_t start = size_t(words.random().below(filler_.size()));
    const size_t room = taken < size_t(length) ? size_t(length) - taken : 0;
    size_t filled = 0;
    for (size_t i = start; filled < room; ++i) {
      Tokens sentence = tokenize_continuation(model_, ".", filler_.sentence(i), false);
      sentence.resize(std::min(sentence.size(), room - filled));  // the last one breaks off: the length is exact
      filled += sentence.size();
      haystack.sentences.push_back(std::move(sentence));
    }
    if (haystack.sentences.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} tokens are too few for needle, question and answer, which take {}; raise --lengths "
                              "or -c",
                              length, taken));
    for (PlacedNeedle& placed : haystack.needles) {
      // The first sentence border at or behind the depth, in tokens.
      const auto before = size_t(std::lround(placed.depth / 100.0 * double(filled)));
      size_t tokens = 0;
      while (placed.place < haystack.sentences.size() && tokens < before)
        tokens += haystack.sentences[placed.place++].size();
    }
    return haystack;
  }

  void ask(const PlacedNeedle& placed, const Tokens& tokens, std::map<double, CellScores>& cells) {
    const auto enough = [&](std::string_view text) { return answer_score(text, placed.answers()) == 1.0; };
    const ReadAnswer answer = reader_->ask({tokens, placed.prompt.right_answer, options_.answer_tokens, enough});
    cells[placed.depth].add(answer_score(answer.text, placed.answers()), answer);
    if (on_question) on_question();
  }

  // What stands before a needle is shared by the needles behind it, so it is read once.
  void ask_each_alone(const Haystack& haystack, std::map<double, CellScores>& cells) {
    reader_->restart();
    reader_->read(haystack.head);
    size_t read = 0;
    for (const PlacedNeedle& placed : haystack.needles) {
      reader_->read(haystack.between(read, placed.place));
      read = placed.place;
      Tokens tokens = placed.sentence;
      append(tokens, haystack.between(read, haystack.sentences.size()));
      append(tokens, placed.prompt.tail);
      ask(placed, tokens, cells);
    }
  }

  void ask_all(const Haystack& haystack, std::map<double, CellScores>& cells) {
    reader_->restart();
    reader_->read(haystack.head);
    size_t read = 0;
    for (const PlacedNeedle& placed : haystack.needles) {
      reader_->read(haystack.between(read, placed.place));
      reader_->read(placed.sentence);
      read = placed.place;
    }
    reader_->read(haystack.between(read, haystack.sentences.size()));
    for (const PlacedNeedle& placed : haystack.needles) ask(placed, placed.prompt.tail, cells);
  }

  const NeedleOptions& options_;
  Model& model_;
  Filler filler_;
  int64_t longest_;
  std::unique_ptr<ContextReader> reader_;
  CacheUse use_;
};

NeedleOptions checked(NeedleOptions options) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (options.lengths.empty() || options.depths.empty()) refuse("--lengths and --depths take one number or more");
  if (options.repeats < 1 || options.answer_tokens < 1)
    refuse(fmt::format("--repeats and -n take 1 or more, got {} and {}", options.repeats, options.answer_tokens));
  for (const double depth : options.depths)
    if (!(depth >= 0 && depth <= 100)) refuse(fmt::format("--depths takes per cent from 0 to 100, got {}", depth));
  for (const int64_t length : options.lengths)
    if (length < 1 || length > options.setup.context)
      refuse(fmt::format("a length of {} tokens doesn't fit into the context of {}; raise -c", length,
                         options.setup.context));
  std::sort(options.depths.begin(), options.depths.end());
  options.depths.erase(std::unique(options.depths.begin(), options.depths.end()), options.depths.end());
  return options;
}

}  // namespace

Json run_needle(const NeedleOptions& given) {
  const NeedleOptions options = checked(given);
  NeedleRun run(options);
  const int64_t total = int64_t(options.lengths.size() * options.depths.size()) * options.repeats;
  int64_t done = 0;
  run.on_question = [&] {
    if (options.setup.progress) options.setup.progress(++done, total);
  };
  CellScores all;
  Json cells = Json::array();
  for (const int64_t length : options.lengths) {
    std::map<double, CellScores> by_depth;
    for (int repeat = 0; repeat < options.repeats; ++repeat) run.run_haystack(length, repeat, by_depth);
    std::string line;
    for (const auto& [depth, cell] : by_depth) {
      Json entry = {{"length", length}, {"depth", depth}};
      cell.write(entry);
      cells.push_back(entry);
      all.add(cell);
      line += fmt::format("  {:g} %: {:.2f}", depth, cell.score());
    }
    if (options.setup.note) options.setup.note(fmt::format("{} tokens:{}", length, line));
  }
  Json result = {{"cells", cells},
                 {"lengths", options.lengths},
                 {"depths", options.depths},
                 {"mode", options.mode == NeedleMode::single ? "single" : "multi"},
                 {"repeats", options.repeats},
                 {"filler", options.text.empty() ? "document" : "text"},
                 {"seed", options.seed}};
  all.write(result);
  write_use(run.use(), result);
  if (run.reader().cache()) result["nonfinite"] = run.reader().cache()->stats().nonfinite;
  return result;
}

}  // namespace kvasir
