// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llama.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "host/llama_log.h"
#include "host/model_files.h"
#include "kvasir/engine.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kSmallModels = {"smollm2", "gemma3-270m", "qwen2.5-coder-0.5b",
                                                          "qwen2.5-coder-1.5b"};
constexpr std::string_view kFullSuffix = "-f32";

fs::path models_folder() {
  return cache_folder() / "models";
}

// Writes `source` with F32 weights to `target`: to a name of this process first, then renamed, so that a copy that was
// interrupted is never taken for a whole one.
void make_full_copy(const fs::path& source, const fs::path& target) {
  start_llama();
  const fs::path partial = target.string() + fmt::format(".{}.part", ::getpid());
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_ALL_F32;
  params.allow_requantize = true;
  params.nthread = int32_t(std::max(1u, std::thread::hardware_concurrency()));
  clear_llama_error();
  std::error_code error;
  if (llama_model_quantize(source.c_str(), partial.c_str(), &params) != 0) {
    fs::remove(partial, error);
    throw Error(ErrorCode::io, fmt::format("the F32 copy of `{}` can't be made: {}", source.string(), llama_error()));
  }
  fs::rename(partial, target, error);
  if (error) {
    fs::remove(partial);
    throw Error(ErrorCode::io, fmt::format("`{}` can't be written: {}", target.string(), error.message()));
  }
}

bool looks_like_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".gguf") || fs::is_regular_file(name);
}

}  // namespace

fs::path cache_folder() {
  if (const char* folder = std::getenv("KVASIR_CACHE_DIR"); folder != nullptr && *folder != '\0') return folder;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    throw Error(ErrorCode::not_found, "neither KVASIR_CACHE_DIR nor HOME is set, so there is no folder of models");
  return fs::path(home) / ".cache" / "kvasir";
}

std::string resolve_model(const std::string& name_or_path, const std::function<void(const std::string&)>& progress) {
  if (looks_like_path(name_or_path)) {
    if (!fs::exists(name_or_path)) throw Error(ErrorCode::not_found, fmt::format("no file `{}`", name_or_path));
    return name_or_path;
  }
  const bool full = name_or_path.ends_with(kFullSuffix);
  const std::string name = full ? name_or_path.substr(0, name_or_path.size() - kFullSuffix.size()) : name_or_path;
  if (std::find(kSmallModels.begin(), kSmallModels.end(), name) == kSmallModels.end()) {
    throw Error(ErrorCode::not_found,
                fmt::format("`{}` is neither a GGUF file nor a small model ({}; each also with {})", name_or_path,
                            fmt::join(kSmallModels, ", "), kFullSuffix));
  }
  const fs::path folder = models_folder();
  const fs::path target = folder / (name_or_path + ".gguf");
  if (fs::exists(target)) return target.string();
  const fs::path source = folder / (name + ".gguf");
  if (!fs::exists(source)) {
    throw Error(ErrorCode::not_found, fmt::format("the model `{}` isn't in {}; fetch it with `tools/fetch_model.py {}`",
                                                  name, folder.string(), name));
  }
  if (progress) progress(fmt::format("making the copy of {} with F32 weights (once): {}", name, target.string()));
  make_full_copy(source, target);
  return target.string();
}

}  // namespace kvasir
