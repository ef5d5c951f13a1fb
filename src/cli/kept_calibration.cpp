// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/kept_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/terminal.h"
#include "eval/document.h"
#include "host/fitted_codecs.h"
#include "host/self_text.h"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kOwnTextLength = 1024;  // tokens of each text that the model writes

// What a first use may take: the run ends after the window that passes the time.
constexpr int64_t kFirstTokens = 8192;
constexpr int kFirstWindow = 512;  // short, so that the time is kept to
constexpr double kFirstSeconds = 60;
constexpr int kFirstDays = 120;  // of the project's own document, about 130 tokens each
constexpr uint64_t kFirstSeed = 1;

template <class Run>
Calibration run_and_keep(CalibrationOptions& options, const std::string& out, Run run) {
  if (const fs::path folder = fs::path(out).parent_path(); !folder.empty()) fs::create_directories(folder);
  options.checkpoint = out + ".partial";
  std::unique_ptr<ProgressBar> bar;
  options.progress = [&](int64_t done, int64_t total) {
    if (!bar) bar = std::make_unique<ProgressBar>("calibrating", total);
    bar->set(done);
  };
  const Calibration calibration = run();
  if (bar) bar->clear();
  save_calibration(calibration, out);
  fs::remove(options.checkpoint);
  return calibration;
}

}  // namespace

Calibration calibrate_on(const std::shared_ptr<Model>& model, const std::string& text, const std::string& text_name,
                         CalibrationOptions options, const std::string& out) {
  check_calibration(options);
  options.text_name = text_name;
  return run_and_keep(options, out, [&] { return run_calibration(model, text, options); });
}

Calibration calibrate_on_own_text(const std::shared_ptr<Model>& model, CalibrationOptions options, uint64_t seed,
                                  const std::string& out) {
  check_calibration(options);
  options.window = std::min(options.window, kOwnTextLength);
  check_calibration(options);
  options.text_name = fmt::format("its own text, seed {}", seed);
  const int texts = std::max(1, int(options.tokens / options.window));
  std::unique_ptr<ProgressBar> bar;
  const auto windows =
      write_texts(model, texts, options.window, seed, options.threads, [&](int64_t done, int64_t total) {
        if (!bar) bar = std::make_unique<ProgressBar>("writing", total);
        bar->set(done);
      });
  if (bar) bar->clear();
  return run_and_keep(options, out, [&] { return run_calibration(model, windows, options); });
}

void calibrate_on_first_use(const std::shared_ptr<Model>& model, const CacheFlags& flags, const CacheOptions& options,
                            int threads) {
  if (!options.automatic || flags.no_calibration || !options.calibration.empty()) return;
  const std::string out = kept_calibration(model->fingerprint());
  if (out.empty() || fs::exists(out)) return;
  note(fmt::format("first use of this model: reading {} tokens to fit its cache, once (--no-calibration: leave it out)",
                   kFirstTokens));
  CalibrationOptions run;
  run.tokens = kFirstTokens;
  run.window = kFirstWindow;
  run.most_seconds = kFirstSeconds;
  run.threads = threads;
  try {
    calibrate_on(model, write_document(kFirstSeed, kFirstDays).text, "the project's own document", run, out);
  } catch (const std::exception& error) {  // what was asked for works without
    note(fmt::format("no calibration ({}): going on with codecs that need none", error.what()));
  }
}

}  // namespace kvasir::cli
