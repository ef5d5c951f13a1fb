// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir calibrate: what the codecs that are fitted to a model start from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "calibrate/oscar_fit.h"
#include "cli/commands.h"
#include "cli/kept_calibration.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"
#include "host/fitted_codecs.h"
#include "host/model_fingerprint.h"
#include "host/rotation_files.h"

namespace kvasir::cli {
namespace {

struct CalibrateFlags {
  ModelFlags model;
  std::vector<std::string> files;
  std::string out;
  std::string calibration;  // to export from, without a run
  std::string rotations;    // to export to
  bool per_head = false;
  CalibrationOptions run;
  uint64_t seed = 1;
  bool json = false;
};

// Empty without files.
std::string joined_texts(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) {
    if (!text.empty()) text += "\n\n";
    text += read_text(file);
  }
  return text;
}

std::string text_name(const std::vector<std::string>& files) {
  std::string name = std::filesystem::path(files.front()).filename().string();
  if (files.size() > 1) name += fmt::format(" and {} more", files.size() - 1);
  return name;
}

void check_flags(const CalibrateFlags& flags) {
  check_model_flags(flags.model);
  if (!flags.rotations.empty()) rotation_format(flags.rotations);
  if (flags.rotations.empty() && (flags.per_head || !flags.calibration.empty()))
    throw Error(ErrorCode::invalid_argument,
                std::string(flags.per_head ? "--per-head" : "--calibration") + " goes with --export-rotations OUT");
  if (!flags.calibration.empty() && !flags.files.empty())
    throw Error(ErrorCode::invalid_argument,
                "-f makes a calibration and --calibration takes one that is there; leave one of them out");
}

void export_rotations(const CalibrateFlags& flags, const Calibration& calibration) {
  write_rotations(std::vector{oscar_rotation_set(calibration.layers, Side::key, flags.per_head),
                              oscar_rotation_set(calibration.layers, Side::value, flags.per_head)},
                  flags.rotations);
  if (!flags.json)
    fmt::print("{} layers, rotations of keys and values, {}: {}\n", calibration.layers.size(),
               flags.per_head ? "one a KV head" : "shared by a layer's heads", flags.rotations);
}

// From a calibration that is there: the model's file is looked at, not loaded.
void export_kept(const CalibrateFlags& flags) {
  if (flags.model.model.empty()) throw Error(ErrorCode::invalid_argument, kNoModel);
  const std::string model = resolve_model(flags.model.model, note);
  const std::string fingerprint = model_fingerprint(model);
  const std::string file = flags.calibration.empty() ? kept_calibration_path(fingerprint) : flags.calibration;
  if (flags.calibration.empty() && !std::filesystem::exists(file))
    throw Error(ErrorCode::not_found,
                "no calibration of this model is kept: -f takes files to make one from, --calibration names another");
  const std::shared_ptr<const Calibration> calibration = calibration_fits(file, fingerprint)->calibration();
  export_rotations(flags, *calibration);
  if (flags.json)
    print_json({{"layers", calibration->layers.size()},
                {"file", file},
                {"rotations", flags.rotations},
                {"per_head", flags.per_head},
                {"model", model},
                {"fingerprint", calibration->model},
                {"text", calibration->text}});
}

void calibrate(CalibrateFlags flags) {
  check_flags(flags);
  if (flags.files.empty() && !flags.rotations.empty()) {
    if (!flags.out.empty())
      throw Error(ErrorCode::invalid_argument,
                  "-o takes the calibration that -f makes; without -f only --export-rotations is written");
    return export_kept(flags);
  }
  const std::string text = joined_texts(flags.files);
  const std::shared_ptr<Model> model = load_model(flags.model);
  const std::string out = flags.out.empty() ? kept_calibration_path(model->fingerprint()) : flags.out;
  flags.run.threads = thread_count(flags.model);
  flags.run.micro_batch = flags.model.micro_batch;
  const Stopwatch watch;
  const Calibration calibration = flags.files.empty()
                                      ? calibrate_on_own_text(model, flags.run, flags.seed, out)
                                      : calibrate_on(model, text, text_name(flags.files), flags.run, out);
  if (!calibration.averaged)
    note(
        "this model does something else with positions than turning channels: keys keep their mean, and a longer text "
        "or a shorter --window reaches more places of its context");
  if (!flags.json) {
    fmt::print("{} layers, {} tokens of {} in {:.0f} s: {}\n", calibration.layers.size(), calibration.tokens,
               calibration.text, watch.seconds(), out);
  }
  if (!flags.rotations.empty()) export_rotations(flags, calibration);
  if (!flags.json) return;
  Json result = {{"layers", calibration.layers.size()},
                 {"tokens", calibration.tokens},
                 {"file", out},
                 {"bytes", std::filesystem::file_size(out)},
                 {"model", model->path()},
                 {"fingerprint", calibration.model},
                 {"text", calibration.text},
                 {"text_hash", calibration.text_hash},
                 {"positions", calibration.positions},
                 {"averaged", calibration.averaged},
                 {"window", calibration.window},
                 {"sink", calibration.sink},
                 {"recent", calibration.recent},
                 {"seconds", watch.seconds()},
                 {"peak_rss", peak_resident_bytes()}};
  if (!flags.rotations.empty()) {
    result["rotations"] = flags.rotations;
    result["per_head"] = flags.per_head;
  }
  print_json(result);
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
  command->add_option("--window", flags->run.window, "tokens that are read at a time, each a text of its own")
      ->capture_default_str();
  command
      ->add_option("--positions", flags->run.positions,
                   "positions that a text may begin at; 0: what the model was trained for")
      ->capture_default_str();
  command->add_option("--sink", flags->run.sink, "first tokens of a window, which don't count (the first never does)")
      ->capture_default_str();
  command->add_option("--recent", flags->run.recent, "last tokens up to a query, which don't count for it")
      ->capture_default_str();
  command->add_option("-s,--seed", flags->seed, "of the text that the model writes")->capture_default_str();
  command->add_option("--seconds", flags->run.most_seconds, "stop after this time; 0: no limit")->capture_default_str();
  command->add_option("--export-rotations", flags->rotations,
                      "also write the rotations of oscar2, as .safetensors or .gguf; without -f from the calibration "
                      "that is there");
  command->add_option("--calibration", flags->calibration,
                      "export from this one; else from the one kept for the model");
  command->add_flag("--per-head", flags->per_head, "export a rotation for each KV head, not one a layer");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { calibrate(*flags); });
}

}  // namespace kvasir::cli
