// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir eval suite: a matrix of models, methods and tasks into a folder.
#include "eval/suite.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "cli/cache_flags.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/terminal.h"
#include "eval/document.h"

namespace kvasir::cli {
namespace {

struct SuiteFlags {
  std::vector<std::string> models, tasks = SuiteOptions().tasks;
  std::vector<int64_t> contexts = SuiteOptions().contexts;
  std::string kv = "q8,turbo4.5,turbo4,turbo3.5,turbo3,turbo2.5,turbo2,kivi4,kivi2,llama-q8_0,llama-q5_1,llama-q4_0";
  std::string presets, file, folder;
  std::string base = SuiteOptions().base;
  CacheOptions windows;
  bool no_protect = false, json = false;
  double budget = 0;
  int chunks = SuiteOptions().windows, samples = SuiteOptions().samples;
  int threads = 0, micro_batch = SuiteOptions().micro_batch;
  uint64_t seed = SuiteOptions().seed;
};

// Long enough for the windows asked for: a day of the book has about 130 tokens.
std::string own_text(const SuiteFlags& flags) {
  int64_t longest = 0;
  for (const int64_t context : flags.contexts) longest = std::max(longest, context);
  const int64_t tokens = std::max<int64_t>(flags.chunks, 1) * longest;
  return write_document(flags.seed, int(tokens / 100 + 20)).text;
}

// "AMD EPYC 7763 64-Core Processor", or nothing where the system doesn't say.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return {};
}

SuiteOptions suite_options(const SuiteFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.models.empty()) refuse("no model: -m takes one or more, as in -m smollm2-f32,gemma3-270m-f32");
  if (flags.folder.empty()) refuse("no folder: -o takes the folder that the results go to");
  if (flags.budget < 0) refuse("--budget takes minutes, 0 for no limit");
  if (flags.threads < 0 || flags.threads > 1024)
    refuse(fmt::format("-t takes 0 to 1024 threads, got {}", flags.threads));
  if (flags.micro_batch < 1) refuse(fmt::format("-ub takes 1 token or more, got {}", flags.micro_batch));
  if (flags.windows.sink < 0 || flags.windows.recent < 0) refuse("--sink and --recent take 0 or more tokens");
  SuiteOptions options;
  CacheOptions windows = flags.windows;
  windows.protect = !flags.no_protect;
  const std::string kv = flags.kv + (flags.presets.empty() ? "" : "," + flags.presets);
  options.methods = as_argument([&] { return suite_methods(kv, windows); });
  options.models = flags.models;
  options.tasks = flags.tasks;
  options.contexts = flags.contexts;
  options.windows = flags.chunks;
  options.base = flags.base;
  options.text = flags.file.empty() ? own_text(flags) : read_text(flags.file);
  options.text_name = flags.file.empty() ? fmt::format("Kvasir's own document, seed {}", flags.seed)
                                         : flags.file.substr(flags.file.find_last_of('/') + 1);
  options.samples = flags.samples;
  options.seed = flags.seed;
  options.budget_seconds = 60 * flags.budget;
  options.micro_batch = flags.micro_batch;
  options.threads = flags.threads > 0 ? flags.threads : int(std::max(1u, std::thread::hardware_concurrency()));
  options.processor = processor_name();
  options.folder = flags.folder;
  options.program = "kvasir " KVASIR_VERSION;
  return options;
}

// A bar that is begun anew whenever the suite turns to something else.
class SuiteBar {
 public:
  void show(const std::string& what, int64_t done, int64_t total) {
    if (!bar_ || what != what_ || done < done_) bar_.emplace(what, total);
    what_ = what;
    done_ = done;
    bar_->set(done);
  }
  void clear() { bar_.reset(); }

 private:
  std::optional<ProgressBar> bar_;
  std::string what_;
  int64_t done_ = 0;
};

void eval_suite(const SuiteFlags& flags) {
  SuiteOptions options = suite_options(flags);
  SuiteBar bar;
  options.note = [&](const std::string& line) {
    bar.clear();
    note(line);
  };
  options.progress = [&](const std::string& what, int64_t done, int64_t total) { bar.show(what, done, total); };
  options.load = [](const std::string& name) {
    ModelFlags model;
    model.model = name;
    return load_model(model);
  };
  const SuiteJson index = run_suite(options);
  bar.clear();
  std::map<std::string, int> count;
  for (const SuiteJson& cell : index["cells"]) ++count[cell["status"].get<std::string>()];
  for (const SuiteJson& cell : index["cells"])
    if (cell["status"] == "failed")
      note(fmt::format("failed: {}: {}", cell["id"].get<std::string>(), cell.value("reason", "")));
  note(
      fmt::format("{} cells measured, {} not run, {} that a method can't do, {} failed; `kvasir report {}` makes a "
                  "page of them",
                  count["done"], count["not_run"], count["unavailable"], count["failed"], flags.folder));
  if (flags.json) print_json(index);
  if (count["failed"] > 0)
    throw Error(ErrorCode::internal, fmt::format("{} cells failed; see {}/suite.json", count["failed"], flags.folder));
}

}  // namespace

void add_eval_suite(CLI::App& eval) {
  const auto flags = std::make_shared<SuiteFlags>();
  CLI::App* command =
      eval.add_subcommand("suite", "models x methods x tasks into a folder; can be stopped and resumed");
  command->add_option("-m,--model", flags->models, "models, separated by commas, the smallest first")->delimiter(',');
  command
      ->add_option("--kv", flags->kv,
                   "methods: codecs, K/V pairs, either with @LAYERS:CODEC behind, native:TYPE, published settings (" +
                       preset_names() + ")")
      ->capture_default_str();
  command->add_option("--preset", flags->presets, "published settings to add to --kv, as in kivi-paper");
  command->add_option("--tasks", flags->tasks, "of kld, needle, ruler, recall, generate; the most important first")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-c,--contexts", flags->contexts, "window lengths in tokens")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--chunks", flags->chunks, "most windows of each kld cell")->capture_default_str();
  command->add_option("--samples", flags->samples, "haystacks, chats, prompts of the other tasks")
      ->capture_default_str();
  command->add_option("--base", flags->base, "what kld compares with: native[:K[,V]] or a codec")
      ->capture_default_str();
  command->add_option("-f,--file", flags->file, "the text to read; the project's own document if left out");
  command->add_option("--budget", flags->budget, "minutes; 0: no limit")->capture_default_str();
  command->add_option("-o,--output", flags->folder, "folder of the results");
  command->add_option("--sink", flags->windows.sink, "first tokens in 16 bits, for every method")
      ->capture_default_str();
  command->add_option("--recent", flags->windows.recent, "last tokens in 16 bits, for every method")
      ->capture_default_str();
  command->add_flag("--no-protect", flags->no_protect, "drop the codecs' default protections");
  command->add_option("-t,--threads", flags->threads, "threads; 0: all that this process may use")
      ->capture_default_str();
  command->add_option("-b,--ubatch-size", flags->micro_batch, "most tokens of one micro-batch")->capture_default_str();
  command->add_option("-s,--seed", flags->seed, "seed of everything random")->capture_default_str();
  command->add_flag("--json", flags->json, "print suite.json");
  command->callback([flags] { eval_suite(*flags); });
}

}  // namespace kvasir::cli
