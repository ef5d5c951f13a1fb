// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/end_to_end_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "cli/effective_config.h"
#include "eval/document_tokens.h"
#include "kvasir/engine.h"

namespace kvasir::cli {
namespace {

// One engine of either kind, fed with the same tokens.
class Contender {
 public:
  Contender(std::string name, std::unique_ptr<Engine> engine)
      : name_(std::move(name)), ours_(std::move(engine)), sequence_(ours_->cache().create()) {}
  Contender(std::string name, std::unique_ptr<NativeEngine> engine)
      : name_(std::move(name)), native_(std::move(engine)) {}

  const std::string& name() const { return name_; }
  bool native() const { return native_ != nullptr; }
  double feed(std::span<const int32_t> tokens) {
    return seconds([&] {
      // Asking for the last logits waits for the computation.
      if (ours_)
        ours_->decode(sequence_, tokens);
      else
        native_->decode(tokens, false, [](int, int, const float*) {});
    });
  }
  // Token by token, as generation does.
  double feed_singly(std::span<const int32_t> tokens) {
    double time = 0.0;
    for (size_t i = 0; i < tokens.size(); ++i) time += feed(tokens.subspan(i, 1));
    return time;
  }
  size_t bytes() const { return ours_ ? ours_->cache().size().total() : native_->cache_bytes(); }
  double bits_per_value() const { return ours_ ? ours_->cache().size().bits_per_value() : native_->bits_per_value(); }
  const Cache& cache() const { return ours_->cache(); }  // ours only

 private:
  std::string name_;
  std::unique_ptr<Engine> ours_;
  std::unique_ptr<NativeEngine> native_;
  SequenceId sequence_ = 0;
};

std::vector<Contender> make_contenders(const std::shared_ptr<Model>& model, const ModelFlags& flags, int64_t context,
                                       const EndToEndOptions& options) {
  std::vector<Contender> contenders;
  for (const NamedOptions& codec : options.codecs) {
    contenders.emplace_back(codec.name, std::make_unique<Engine>(model, engine_options(flags, *model, codec.options)));
    note(fmt::format("{}:", codec.name));
    note_cache(contenders.back().cache(), context, thread_count(flags));
  }
  for (const std::string& type : options.native)
    contenders.emplace_back(type, as_argument([&] {
                              return std::make_unique<NativeEngine>(model, type, type, context, flags.micro_batch,
                                                                    thread_count(flags));
                            }));
  return contenders;
}

// The times of one run, by turns of contenders.
struct Times {
  PairedTimes prefill, decode;
};

Times play(std::vector<Contender>& contenders, std::span<const int32_t> tokens, const EndToEndOptions& options,
           size_t chunk) {
  Times times{PairedTimes(contenders.size()), PairedTimes(contenders.size())};
  const size_t prompt = tokens.size() - size_t(options.decode);
  ProgressBar bar("prefill and decode", int64_t(tokens.size()));
  for (size_t first = 0; first < prompt; first += chunk) {
    const auto part = tokens.subspan(first, std::min(chunk, prompt - first));
    times.prefill.turn([&](size_t i) { return contenders[i].feed(part); });
    bar.set(int64_t(first + part.size()));
  }
  for (size_t first = prompt; first < tokens.size(); first += size_t(options.round)) {
    const auto part = tokens.subspan(first, std::min(size_t(options.round), tokens.size() - first));
    times.decode.turn([&](size_t i) { return contenders[i].feed_singly(part); });
    bar.set(int64_t(first + part.size()));
  }
  return times;
}

EndToEndFigures figures_of(const std::vector<Contender>& contenders, size_t index, const Times& times,
                           const EndToEndRun& run) {
  const Contender& contender = contenders[index];
  EndToEndFigures figures;
  figures.name = contender.name();
  figures.native = contender.native();
  figures.bits_per_value = contender.bits_per_value();
  figures.bytes = contender.bytes();
  figures.prefill_tps = double(run.context - run.decode) / times.prefill.total(index);
  figures.decode_tps = double(run.decode) / times.decode.total(index);
  if (contender.native()) return figures;
  figures.kv = kv_json(contender.cache());
  figures.effective = effective_json(contender.cache(), run.context, run.micro_batch, run.threads);
  for (size_t b = 0; b < contenders.size(); ++b) {
    if (!contenders[b].native()) continue;
    figures.decode_ratio[contenders[b].name()] = times.decode.ratio(index, b);
    // Chunks differ in work, so sums are compared, not chunk with chunk.
    figures.prefill_ratio[contenders[b].name()] = times.prefill.total(b) / times.prefill.total(index);
  }
  return figures;
}

}  // namespace

EndToEndRun run_end_to_end(const std::shared_ptr<Model>& model, const ModelFlags& flags,
                           const EndToEndOptions& options) {
  EndToEndRun run;
  run.model = flags.model;
  run.path = model->path();
  run.context = context_length(flags, *model);
  run.decode = options.decode;
  run.threads = thread_count(flags);
  run.micro_batch = flags.micro_batch;
  run.sink = options.codecs.at(0).options.sink;
  run.recent = options.codecs.at(0).options.recent;
  std::vector<Contender> contenders = make_contenders(model, flags, run.context, options);  // refuses what can't be
  const std::vector<int32_t> tokens = tokenize_document(*model, 1, run.context).tokens;
  const Times times = play(contenders, std::span(tokens).first(size_t(run.context)), options, size_t(run.micro_batch));
  for (size_t i = 0; i < contenders.size(); ++i) run.figures.push_back(figures_of(contenders, i, times, run));
  return run;
}

}  // namespace kvasir::cli
