// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/llama_log.h"

#include <llama.h>

#include <mutex>

namespace kvasir {
namespace {

struct ErrorLine {
  std::mutex mutex;
  std::string text;
  bool open = false;  // the first error line isn't finished: GGML_LOG_LEVEL_CONT pieces belong to it
};

ErrorLine& error_line() {
  static ErrorLine line;
  return line;
}

void on_log(ggml_log_level level, const char* text, void*) {
  ErrorLine& line = error_line();
  const std::lock_guard lock(line.mutex);
  if (level == GGML_LOG_LEVEL_CONT) {
    if (line.open) line.text += text;
    return;
  }
  line.open = level == GGML_LOG_LEVEL_ERROR && line.text.empty();
  if (line.open) line.text = text;
}

// "llama_model_load: error loading model: gguf_init: bad type" -> "error loading model: gguf_init: bad type"
void strip_function_name(std::string& text) {
  const size_t colon = text.find(": ");
  if (colon != std::string::npos && text.find(' ') > colon) text.erase(0, colon + 2);
}

}  // namespace

void start_llama() {
  static const bool started = [] {
    llama_log_set(on_log, nullptr);
    llama_backend_init();
    return true;
  }();
  (void)started;
}

void clear_llama_error() {
  const std::lock_guard lock(error_line().mutex);
  error_line().text.clear();
  error_line().open = false;
}

std::string llama_error() {
  const std::lock_guard lock(error_line().mutex);
  std::string text = error_line().text;
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  const size_t end = text.find_last_not_of(" \r\t.");
  text.erase(end == std::string::npos ? 0 : end + 1);
  strip_function_name(text);
  for (const char* prefix : {"error loading model: ", "error loading model architecture: ", "failed to quantize: "}) {
    if (text.starts_with(prefix)) text.erase(0, std::char_traits<char>::length(prefix));
  }
  strip_function_name(text);
  return text.empty() ? "no reason given" : text;
}

}  // namespace kvasir
