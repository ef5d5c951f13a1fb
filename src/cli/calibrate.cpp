// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir calibrate: what the codecs that are fitted to a model start from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"
#include "host/calibration_run.h"
#include "host/fitted_codecs.h"
#include "host/self_text.h"

namespace kvasir::cli {
namespace {

struct CalibrateFlags {
  ModelFlags model;
  std::vector<std::string> files;
  std::string out;
  CalibrationOptions run;
  uint64_t seed = 1;
  bool json = false;
};

constexpr int kSelfTextLength = 1024;  // tokens of each text that the model writes

std::string joined_texts(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    if (!text.empty()) text += "\n\n";
    text += read_text(file);
  }
  return text;
}

std::string text_name(const std::vector<std::string>& files) {
  if (files.empty()) return "what the model wrote itself";
  std::string name = std::filesystem::path(files.front()).filename().string();
  if (files.size() > 1) name += fmt::format(" and {} more", files.size() - 1);
  return name;
}

void calibrate(CalibrateFlags flags) {
  check_model_flags(flags.model);
  if (flags.files.empty()) throw Error(ErrorCode::invalid_argument, "no text: -f takes files to read, or - for stdin");
  const std::string text = joined_texts(flags.files);
  const std::shared_ptr<Model> model = load_model(flags.model);
  const std::string out = flags.out.empty() ? kept_calibration_path(model->fingerprint()) : flags.out;
  if (const auto folder = std::filesystem::path(out).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  flags.run.threads = thread_count(flags.model);
  flags.run.micro_batch = flags.model.micro_batch;
  flags.run.text_name = text_name(flags.files);
  flags.run.checkpoint = out + ".partial";

  const Stopwatch watch;
  std::unique_ptr<ProgressBar> bar;
  flags.run.progress = [&](int64_t done, int64_t total) {
    if (!bar) bar = std::make_unique<ProgressBar>("calibrating", total);
    bar->set(done);
  };
  if (flags.files.empty()) flags.run.window = std::min(flags.run.window, kSelfTextLength);
  const Calibration calibration =
      flags.files.empty()
          ? run_calibration(model,
                            write_texts(model, int(flags.run.tokens / flags.run.window), flags.run.window, flags.seed,
                                        flags.run.threads, flags.run.progress),
                            flags.run)
          : run_calibration(model, text, flags.run);
  if (bar) bar->clear();
  save_calibration(calibration, out);
  std::filesystem::remove(flags.run.checkpoint);
  if (!flags.json) {
    fmt::print("{} layers, {} tokens of {} in {:.0f} s: {}\n", calibration.layers.size(), calibration.tokens,
               calibration.text, watch.seconds(), out);
    return;
  }
  print_json({{"layers", calibration.layers.size()},
              {"tokens", calibration.tokens},
              {"file", out},
              {"bytes", std::filesystem::file_size(out)},
              {"model", model->path()},
              {"fingerprint", calibration.model},
              {"text", calibration.text},
              {"text_hash", calibration.text_hash},
              {"window", calibration.window},
              {"sink", calibration.sink},
              {"recent", calibration.recent},
              {"seconds", watch.seconds()},
              {"peak_rss", peak_resident_bytes()}});
}

}  // namespace

void add_calibrate(CLI::App& program) {
  const auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command =
      program.add_subcommand("calibrate", "read a text and keep what codecs that are fitted to the model need");
  add_model_flags(*command, flags->model);
  command->add_option("-f,--file", flags->files, "texts to read; without any the model writes its own");
  command->add_option("-o,--output", flags->out, "where to write; else where --kv finds it by itself");
  command->add_option("--tokens", flags->run.tokens, "most tokens to read")->capture_default_str();
  command->add_option("--window", flags->run.window, "tokens that are read at a time")->capture_default_str();
  command->add_option("--sink", flags->run.sink, "first tokens of a window, which don't count")->capture_default_str();
  command->add_option("--recent", flags->run.recent, "last tokens up to a query, which don't count for it")
      ->capture_default_str();
  command->add_option("--seconds", flags->run.most_seconds, "stop after this time; 0: no limit")->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { calibrate(*flags); });
}

}  // namespace kvasir::cli
