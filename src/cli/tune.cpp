// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir tune: codec and bits by layer and side, for a target of memory or of quality.
#include "eval/tune.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/replaced_file.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"

namespace kvasir::cli {
namespace {

struct TuneFlags {
  ModelFlags model;
  CacheFlags cache;  // windows, calibration and protection of it
  std::string file, out;
  std::vector<std::string> candidates;
  double bits = 0, kld = 0;
  bool bits_given = false, kld_given = false;
  int groups = 0, chunks = TuneOptions().chunks;
  bool json = false;
};

// The names as reports print them, each once.
std::vector<std::string> candidate_names(const std::vector<std::string>& asked) {
  std::vector<std::string> names;
  for (const std::string& text : asked) {
    // Throws, with the list of names; equal codecs get equal names.
    const std::string name =
        as_argument([&] { return is_fitted_codec(text) ? text : make_codec(text, Side::key, 64).name; });
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

TuneOptions tune_options(const TuneFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  check_model_flags(flags.model);
  if (flags.file.empty()) refuse("no text: -f takes the file to read, or - for stdin");
  if (flags.bits_given == flags.kld_given)
    refuse(flags.bits_given ? "--bits and --kld are two targets; leave one of them out"
                            : "no target: --bits takes the most bits a value, as in --bits 3, or --kld the most "
                              "divergence, as in --kld 0.01");
  if (flags.bits_given && !(flags.bits > 0 && flags.bits <= 16))
    refuse(fmt::format("--bits takes bits a value up to 16, as in 2.75, got {}", flags.bits));
  if (flags.kld_given && !(flags.kld > 0 && std::isfinite(flags.kld)))
    refuse(fmt::format("--kld takes a mean divergence above 0, as in 0.01, got {}", flags.kld));
  if (flags.groups < 0) refuse(fmt::format("--groups takes 1 or more groups of layers, got {}", flags.groups));
  if (flags.chunks < 0) refuse(fmt::format("--chunks takes 0 or more windows, got {}", flags.chunks));
  if (flags.out.empty()) refuse("no file to write: -o takes one, for --kv @FILE");
  TuneOptions options;
  options.cache = cache_options_without_codecs(flags.cache);
  options.candidates = candidate_names(flags.candidates);
  if (flags.bits_given) options.bits = flags.bits;
  if (flags.kld_given) options.kld = flags.kld;
  options.groups = flags.groups;
  options.chunks = flags.chunks;
  options.text = read_text(flags.file);
  options.text_name = flags.file == "-" ? "stdin" : std::filesystem::path(flags.file).filename().string();
  options.micro_batch = flags.model.micro_batch;
  options.threads = thread_count(flags.model);
  return options;
}

void write_file(const std::string& path, const Json& object) {
  const std::string text = object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  ReplacedFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void print(const TuneResult& result, const std::string& out) {
  fmt::print("{:>8} {:>12}\n", "bits", "KLD, sum");
  for (size_t i = 0; i < result.frontier.size(); ++i)
    fmt::print("{:>8.3f} {:>12.3g}{}\n", result.frontier[i].bits, result.frontier[i].kld,
               i == result.chosen ? "  chosen" : "");
  const FrontierPoint& chosen = result.frontier[result.chosen];
  const std::vector<std::string> names = result.names(chosen);
  fmt::print("\n{:<8} {:<16} {:<16}\n", "layers", "K", "V");
  for (size_t i = 0; i < result.units.size(); i += 2)
    fmt::print("{:<8} {:<16} {:<16}\n", fmt::format("{}-{}", result.units[i].first, result.units[i].last), names[i],
               names[i + 1]);
  fmt::print("\nchosen      {:.3f} bits a value, KLD {:.3g} +- {:.1g} measured, {:.3g} predicted\n", chosen.bits,
             result.measured.kld.mean, result.measured.kld.se, chosen.kld);
  if (const TunedCache* best = result.best_uniform())
    fmt::print("one codec   {:.3f} bits a value, KLD {:.3g} +- {:.1g} measured: {}\n", best->bits, best->kld.mean,
               best->kld.se, best->name);
  fmt::print("written to  {}, for --kv @{}\n", out, out);
}

void tune(const TuneFlags& flags) {
  TuneOptions options = tune_options(flags);
  { const ReplacedFile probe(flags.out); }  // a folder that can't be written to is said now, not in an hour
  options.model = load_model(flags.model);
  options.context = context_length(flags.model, *options.model);
  std::unique_ptr<ProgressBar> bar;
  std::string shown;
  options.note = [&](const std::string& line) {
    if (bar) bar->clear();
    note(line);
  };
  options.progress = [&](const std::string& what, int64_t done, int64_t total) {
    if (what != shown) bar = std::make_unique<ProgressBar>(what, total);
    shown = what;
    bar->set(done);
  };
  const Stopwatch watch;
  const TuneResult result = run_tune(options);
  if (bar) bar->clear();
  Json object = tune_json(options, result);
  write_file(flags.out, object);
  if (!flags.json) return print(result, flags.out);
  object["file"] = flags.out;
  object["seconds"] = watch.seconds();
  object["peak_rss"] = peak_resident_bytes();
  print_json(object);
}

}  // namespace

void add_tune(CLI::App& program) {
  const auto flags = std::make_shared<TuneFlags>();
  flags->model.context = TuneOptions().context;
  CLI::App* command = program.add_subcommand(
      "tune",
      "choose codec and bits by layer and side for a target, and show the frontier. Each candidate is measured in one "
      "side of one group of layers with the rest in 16 bits, and divergences are assumed to add; what is chosen is "
      "then measured as a whole");
  add_model_flags(*command, flags->model);
  command->add_option("-f,--file", flags->file, "the text to measure on, or - for stdin");
  command->add_option("--bits", flags->bits, "the most bits a value, 16-bit windows not counted");
  command->add_option("--kld", flags->kld, "the most divergence from a 16-bit cache, nats a token (predicted)");
  command->add_option("-o,--output", flags->out, "where to write the choice, for --kv @FILE");
  command
      ->add_option("--candidates", flags->candidates,
                   "codecs to choose from, separated by commas; else spectral2 to spectral4 with a calibration, "
                   "turbo2 to q8 without")
      ->delimiter(',');
  command->add_option("--groups", flags->groups, "groups of layers; 0: six, or one a layer where there are fewer")
      ->capture_default_str();
  command->add_option("--chunks", flags->chunks, "windows of -c tokens to read; 0: all")->capture_default_str();
  command->add_option("--sink", flags->cache.sink, "first tokens kept in 16 bits")->capture_default_str();
  command->add_option("--recent", flags->cache.recent, "last tokens kept in 16 bits")->capture_default_str();
  command->add_option("--calibration", flags->cache.calibration,
                      "what kvasir calibrate wrote; else the one kept for the model");
  command->add_flag("--no-calibration", flags->cache.no_calibration, "don't use the one kept for the model");
  command->add_flag("--no-protect", flags->cache.no_protect, "leave out the codecs' default protections");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, command] {
    flags->bits_given = command->count("--bits") > 0;
    flags->kld_given = command->count("--kld") > 0;
    tune(*flags);
  });
}

}  // namespace kvasir::cli
