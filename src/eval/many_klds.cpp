// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/many_klds.h"

#include <algorithm>

#include "eval/lockstep.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// Caches that live at once. Each has a context of llama.cpp with its scratch memory; the base is an eighth on top.
constexpr size_t kAtOnce = 8;

SourceSpec spec_of(const CacheOptions& options) {
  SourceSpec spec;
  spec.cache = options;
  return spec;
}

// A few caches through all windows, into `results`.
class Batch {
 public:
  Batch(const ManyKldsJob& job, std::span<const CacheOptions> caches, std::span<ManyKldsResult> results,
        int micro_batch)
      : job_(job), results_(results), micro_batch_(micro_batch) {
    for (size_t i = 0; i < caches.size(); ++i) try {
        sources_.push_back(
            make_source(job.model, spec_of(caches[i]), int64_t(job.windows[0].size()), micro_batch, job.threads));
        owners_.push_back(i);
      } catch (const Error& error) {
        results[i].failure = error.what();
      }
    klds_.resize(sources_.size());
  }

  void score(LogitSource& base, std::span<const int32_t> window, const std::function<void(int64_t)>& progress) {
    std::vector<LockstepRun> runs;
    std::vector<size_t> places;
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!results_[owners_[i]].failure.empty()) continue;
      runs.emplace_back().source = sources_[i].get();
      places.push_back(i);
    }
    if (runs.empty()) return;
    score_in_lockstep(base, runs, window, job_.model->vocab_size(), micro_batch_, job_.threads, progress);
    for (size_t i = 0; i < runs.size(); ++i) {
      results_[owners_[places[i]]].failure = runs[i].failure;
      for (const LogitDivergence& position : runs[i].positions) klds_[places[i]].push_back(position.kld);
    }
  }

  void finish() {
    for (size_t i = 0; i < sources_.size(); ++i) results_[owners_[i]].kld = mean_error(klds_[i]);
  }

 private:
  const ManyKldsJob& job_;
  std::span<ManyKldsResult> results_;
  int micro_batch_;
  std::vector<std::unique_ptr<LogitSource>> sources_;
  std::vector<size_t> owners_;  // of sources_[i] in results_
  std::vector<std::vector<double>> klds_;
};

}  // namespace

std::vector<ManyKldsResult> measure_klds(const ManyKldsJob& job, std::span<const CacheOptions> caches) {
  std::vector<ManyKldsResult> results(caches.size());
  if (caches.empty()) return results;
  const int64_t length = int64_t(job.windows[0].size()), windows = int64_t(job.windows.size());
  const int64_t total = length * windows * int64_t(caches.size());
  const int micro_batch = lockstep_micro_batch(job.model->vocab_size(), int(std::min<int64_t>(job.micro_batch, length)),
                                               int(std::min(kAtOnce, caches.size())) + 1);
  const auto base = make_source(job.model, spec_of(job.base), length, micro_batch, job.threads);
  int64_t before = 0;
  for (size_t first = 0; first < caches.size(); first += kAtOnce) {
    const size_t count = std::min(kAtOnce, caches.size() - first);
    Batch batch(job, caches.subspan(first, count), std::span(results).subspan(first, count), micro_batch);
    for (const std::vector<int32_t>& window : job.windows) {
      batch.score(*base, window, [&](int64_t done) {
        if (job.progress) job.progress(before + done * int64_t(count), total);
      });
      before += length * int64_t(count);
    }
    batch.finish();
  }
  return results;
}

}  // namespace kvasir
