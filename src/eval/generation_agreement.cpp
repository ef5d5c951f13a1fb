// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/generation_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "eval/context_reader.h"
#include "eval/divergence_summary.h"
#include "eval/document.h"
#include "eval/document_tokens.h"
#include "eval/kl_divergence.h"
#include "eval/task_prompt.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

// One cache that goes on from a prompt.
class Writer {
 public:
  Writer(const EvalSetup& setup, const SourceSpec& spec, int64_t context, int micro_batch)
      : model_(*setup.model), micro_batch_(size_t(micro_batch)) {
    try {
      source_ = make_source(setup.model, spec, context, micro_batch, setup.threads);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      throw Error(ErrorCode::invalid_argument, error.what());
    }
  }

  const LogitSource& source() const { return *source_; }

  // Greedy tokens, each fed by itself; an end-of-text token is the last one where `stop_at_end`.
  Tokens write(const Tokens& prompt, int most, bool stop_at_end, const std::function<void()>& on_token) {
    Tokens written;
    read(prompt);
    while (int(written.size()) < most) {
      written.push_back(likeliest(logits_));
      on_token();
      if (stop_at_end && model_.is_end(written.back())) break;
      if (int(written.size()) < most) source_->append({&written.back(), 1}, true, logits_);
    }
    return written;
  }

  // How many of `text`'s tokens are the likeliest ones while exactly this text is fed.
  size_t agree(const Tokens& prompt, const Tokens& text) {
    const size_t width = size_t(model_.vocab_size());
    read(prompt);
    size_t same = likeliest(logits_) == text[0];
    for (size_t first = 0; first + 1 < text.size();) {
      const size_t count = std::min(micro_batch_, text.size() - 1 - first);
      source_->append(std::span(text).subspan(first, count), true, logits_);
      for (size_t i = 0; i < count; ++i)
        same += likeliest(std::span(logits_).subspan(i * width, width)) == text[first + i + 1];
      first += count;
    }
    return same;
  }

 private:
  // Leaves the logits of the prompt's last token.
  void read(const Tokens& prompt) {
    source_->restart();
    const size_t before = prompt.size() - 1;
    for (size_t first = 0; first < before; first += micro_batch_)
      source_->append(std::span(prompt).subspan(first, std::min(micro_batch_, before - first)), false, logits_);
    source_->append({&prompt.back(), 1}, true, logits_);
  }

  const Model& model_;
  size_t micro_batch_;
  std::unique_ptr<LogitSource> source_;
  std::vector<float> logits_;
};

// A stretch of the document and a request to go on with it, cut to the wanted number of tokens.
Tokens make_prompt(const GenerationOptions& options, int index) {
  const Model& model = *options.setup.model;
  constexpr int64_t kRequestTokens = 120;  // room for the template and the request
  const int64_t wanted = std::max<int64_t>(options.prompt_tokens - kRequestTokens, 16);
  const Document document = tokenize_document(model, options.seed + uint64_t(index), wanted).document;
  TaskSample sample;
  sample.context = document.text;
  while (!sample.context.empty() && sample.context.back() == '\n') sample.context.pop_back();
  sample.question = "Go on with this book: write the entries of the days that follow, in the same style and detail.";
  if (!uses_chat_template(model, options.setup.raw))
    return tokenize_beginning(model, sample.context + "\n\nDay", false);
  const TaskPrompt prompt = tokenize_sample(model, sample, false);
  Tokens tokens = prompt.head;
  tokens.insert(tokens.end(), prompt.tail.begin(), prompt.tail.end());
  return tokens;
}

std::vector<Tokens> tokenized_prompts(const GenerationOptions& options) {
  std::vector<Tokens> prompts;
  if (options.prompts.empty()) {
    for (int i = 0; i < options.count; ++i) prompts.push_back(make_prompt(options, i));
    return prompts;
  }
  for (const std::string& text : options.prompts) {
    TaskSample sample;
    sample.question = text;
    const bool chat = uses_chat_template(*options.setup.model, options.setup.raw);
    prompts.push_back(chat ? tokenize_sample(*options.setup.model, sample, false).tail
                           : tokenize_beginning(*options.setup.model, text, false));
    if (prompts.back().empty()) throw Error(ErrorCode::invalid_argument, "a prompt has no tokens; give a longer one");
  }
  return prompts;
}

}  // namespace

Json run_generation_agreement(const GenerationOptions& options) {
  const EvalSetup& setup = options.setup;
  if (options.tokens < 1 || (options.prompts.empty() && options.count < 1))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("-n and --prompts take 1 or more, got {} and {}", options.tokens, options.count));
  const std::vector<Tokens> prompts = tokenized_prompts(options);
  size_t longest = 0;
  for (const Tokens& prompt : prompts) longest = std::max(longest, prompt.size());
  const int64_t context = int64_t(longest) + options.tokens;
  const int micro_batch =
      lockstep_micro_batch(setup.model->vocab_size(), int(std::min<int64_t>(setup.micro_batch, context)));
  Writer base(setup, options.base, context, micro_batch), test(setup, setup.kv, context, micro_batch);
  if (test.source().cache() && setup.on_cache) setup.on_cache(*test.source().cache());

  const int64_t total = int64_t(prompts.size()) * options.tokens * 2;
  size_t written = 0, same = 0, forced = 0;
  std::vector<double> first_differences, identical, agreements;
  double bits = 0;
  Json entries = Json::array();
  for (size_t p = 0; p < prompts.size(); ++p) {
    int64_t done = int64_t(p) * options.tokens * 2;
    const auto step = [&] {
      if (setup.progress) setup.progress(++done, total);
    };
    const Tokens wanted = base.write(prompts[p], options.tokens, true, step);
    const Tokens got = test.write(prompts[p], int(wanted.size()), false, step);
    bits = test.source().bits_per_value();
    size_t first = 0, equal = 0;
    while (first < wanted.size() && got[first] == wanted[first]) ++first;
    for (size_t i = 0; i < wanted.size(); ++i) equal += got[i] == wanted[i];
    const size_t agreed = test.agree(prompts[p], wanted);
    written += wanted.size();
    same += equal;
    forced += agreed;
    first_differences.push_back(double(first));
    identical.push_back(first == wanted.size());
    agreements.push_back(double(equal) / double(wanted.size()));
    entries.push_back({{"prompt_tokens", prompts[p].size()},
                       {"tokens", wanted.size()},
                       {"distinct_tokens", std::set<int32_t>(wanted.begin(), wanted.end()).size()},
                       {"first_difference", first},
                       {"identical", first == wanted.size()},
                       {"agreement", agreements.back()},
                       {"forced_agreement", double(agreed) / double(wanted.size())},
                       {"bits_per_value", bits}});
    if (setup.note)
      setup.note(fmt::format("prompt {}/{}: first difference at {} of {}, same {:.1f} %, likeliest token kept {:.1f} %",
                             p + 1, prompts.size(), first, wanted.size(), 100 * agreements.back(),
                             100.0 * double(agreed) / double(wanted.size())));
  }
  const MeanError difference = mean_error(first_differences);
  return {{"agreement", double(same) / double(written)},
          {"agreement_se", mean_error(agreements).se},
          {"first_difference", difference.mean},
          {"first_difference_se", difference.se},
          {"identical", mean_error(identical).mean},
          {"forced_agreement", double(forced) / double(written)},
          {"n", written},
          {"prompts", entries},
          {"seed", options.seed},
          {"context", context},
          {"bits_per_value", bits},
          {"bytes", test.source().bytes()},
          {"bytes_f16", test.source().bytes_f16()}};
}

}  // namespace kvasir
