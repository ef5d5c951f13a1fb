// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The flags that choose and load a model, named as in llama.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/cache_flags.h"
#include "kvasir/engine.h"

namespace CLI {
class Option;
}

namespace kvasir::cli {

// Said where -m is missing. The flag isn't marked as required for the parser, which would then complain about it first,
// whatever else is wrong on the line.
inline constexpr const char* kNoModel = "no model: -m takes a GGUF file or the name of a small model, as in -m smollm2";

struct ModelFlags {
  std::string model;       // -m
  int64_t context = 4096;  // -c; 0: what the model was trained for
  int threads = 0;         // -t; 0: all that this process may use
  int micro_batch = 512;   // -b, -ub
  std::string gpu_layers;  // -ngl
};

void add_model_flags(CLI::App& command, ModelFlags& flags);
// Their parts, for commands that take several models or lengths.
CLI::Option* add_model_option(CLI::App& command, std::vector<std::string>& models);
CLI::Option* add_context_option(CLI::App& command, std::vector<int64_t>& contexts);
void add_compute_flags(CLI::App& command, ModelFlags& flags);  // -t, -b, -ngl

// Checks what can be checked without a model. Throws Error invalid_argument.
void check_model_flags(const ModelFlags& flags);

int thread_count(const ModelFlags& flags);

// Resolves the name and loads the file, with a progress bar and one line that says what was loaded.
std::shared_ptr<Model> load_model(const ModelFlags& flags);

// -c as asked for, or the trained context for 0.
int64_t context_length(const ModelFlags& flags, const Model& model);

// For benchmarks: a line if that is beyond what the model was trained for.
void note_untrained_context(int64_t context, const Model& model);

EngineOptions engine_options(const ModelFlags& flags, const Model& model, const CacheOptions& cache);

// A text file, or stdin for "-". Throws Error not_found, io.
std::string read_text(const std::string& path);

}  // namespace kvasir::cli
