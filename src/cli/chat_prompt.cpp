// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_prompt.h"

#include <llama.h>

#include "host/text_tokens.h"
#include "kvasir/error.h"

namespace kvasir::cli {

bool has_chat_template(const Model& model) {
  return llama_model_chat_template(model.handle(), nullptr) != nullptr;
}

std::vector<int32_t> tokenize_start(const Model& model, const std::string& text, bool parse_special) {
  std::vector<int32_t> tokens = tokenize_beginning(model, text, parse_special);
  if (tokens.empty()) throw Error(ErrorCode::invalid_argument, "the prompt has no tokens; give a longer one");
  return tokens;
}

std::vector<int32_t> first_prompt(const Model& model, const std::string& text, const std::string& system, bool raw) {
  if (raw || !has_chat_template(model)) {
    if (!system.empty())
      throw Error(ErrorCode::invalid_argument, "this model has no chat template, so --system has no place");
    return tokenize_start(model, text, true);
  }
  std::vector<Model::Message> messages;
  if (!system.empty()) messages.push_back({"system", system});
  messages.push_back({"user", text});
  try {
    return tokenize_start(model, model.apply_chat_template(messages, true), true);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    throw Error(ErrorCode::unsupported,
                "llama.cpp doesn't know this model's chat template; give --raw and write the prompt in the "
                "model's own format");
  }
}

}  // namespace kvasir::cli
