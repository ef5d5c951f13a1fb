// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/model_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "cli/terminal.h"

namespace kvasir::cli {

namespace {

constexpr const char *kGroup = "Model", *kModelNames = "-m,--model", *kContextNames = "-c,--ctx-size";
constexpr const char* kModelWords =
    "a GGUF file or a small model's name: smollm2, gemma3-270m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, each also with "
    "-f32";
constexpr const char* kContextWords = "tokens of context; 0: what the model was trained for";

}  // namespace

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  command.add_option(kModelNames, flags.model, kModelWords)->group(kGroup);
  command.add_option(kContextNames, flags.context, kContextWords)->group(kGroup)->capture_default_str();
  add_compute_flags(command, flags);
}

CLI::Option* add_model_option(CLI::App& command, std::vector<std::string>& models) {
  return command.add_option(kModelNames, models, std::string(kModelWords) + "; several with commas")->group(kGroup);
}

CLI::Option* add_context_option(CLI::App& command, std::vector<int64_t>& contexts) {
  return command.add_option(kContextNames, contexts, std::string(kContextWords) + "; several with commas")
      ->check([](const std::string& word) { return std::string(word.empty() ? "a length is missing" : ""); })
      ->group(kGroup)
      ->capture_default_str();
}

void add_compute_flags(CLI::App& command, ModelFlags& flags) {
  command.add_option("-t,--threads", flags.threads, "threads; 0: all that this process may use")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("-b,--batch-size,--ubatch-size", flags.micro_batch, "tokens of one micro-batch (also -ub)")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("--n-gpu-layers", flags.gpu_layers, "accepted for llama.cpp's sake (also -ngl); only 0 here")
      ->group(kGroup);
}

void check_model_flags(const ModelFlags& flags) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (flags.model.empty()) refuse(kNoModel);
  if (flags.context < 0 || flags.context > INT32_MAX)
    refuse(fmt::format("-c takes 0 to {} tokens, got {}", INT32_MAX, flags.context));
  if (flags.threads < 0 || flags.threads > 1024)
    refuse(fmt::format("-t takes 0 to 1024 threads, got {}", flags.threads));
  if (flags.micro_batch < 1 || flags.micro_batch > 65536)
    refuse(fmt::format("-ub takes 1 to 65536 tokens, got {}", flags.micro_batch));
  if (!flags.gpu_layers.empty() && flags.gpu_layers != "0")
    refuse(
        fmt::format("-ngl {}: this version computes on the CPU only; leave -ngl out or say -ngl 0", flags.gpu_layers));
}

int thread_count(const ModelFlags& flags) {
  return flags.threads > 0 ? flags.threads : int(std::max(1u, std::thread::hardware_concurrency()));
}

std::shared_ptr<Model> load_model(const ModelFlags& flags) {
  const std::string path = resolve_model(flags.model, note);
  ProgressBar bar("loading " + std::filesystem::path(path).filename().string(), 1000);
  std::shared_ptr<Model> model = Model::load(path, [&](float share) { bar.set(int64_t(share * 1000)); });
  bar.clear();
  note(fmt::format("model: {} ({}), {} attention layers, trained for {} tokens", path, model->description(),
                   model->geometry().layers.size(), model->trained_context()));
  return model;
}

int64_t context_length(const ModelFlags& flags, const Model& model) {
  return flags.context > 0 ? flags.context : model.trained_context();
}

void note_untrained_context(int64_t context, const Model& model) {
  if (context <= model.trained_context()) return;
  note(fmt::format("-c {} is more than the {} tokens that the model was trained for: times are right, answers won't be",
                   context, model.trained_context()));
}

EngineOptions engine_options(const ModelFlags& flags, const Model& model, const CacheOptions& cache) {
  EngineOptions options;
  options.cache = cache;
  options.context = context_length(flags, model);
  options.micro_batch = int(std::min<int64_t>(flags.micro_batch, options.context));
  options.threads = thread_count(flags);
  return options;
}

std::string read_text(const std::string& path) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return text;
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw Error(ErrorCode::not_found, "no file `" + path + "`");
  if (std::filesystem::is_directory(path, error))
    throw Error(ErrorCode::io, "`" + path + "` is a folder, not a text file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::io, "`" + path + "` can't be opened for reading");
  text.assign(std::istreambuf_iterator<char>(file), {});
  return text;
}

}  // namespace kvasir::cli
