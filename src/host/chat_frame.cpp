// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "host/chat_frame.h"

#include "host/text_tokens.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

// What stands in a template for a text that is put there later. Words of no model's special tokens.
constexpr const char* kMessage = "(a message stands here)";
constexpr const char* kAnswer = "(an answer stands here)";

}  // namespace

ChatFrame chat_frame(const Model& model, const std::string& system) {
  std::vector<Model::Message> messages;
  if (!system.empty()) messages.push_back({"system", system});
  messages.push_back({kUser, kMessage});
  messages.push_back({kAssistant, kAnswer});
  messages.push_back({kUser, kMessage});
  const std::string text = model.apply_chat_template(messages, true);
  if (text.empty())
    throw Error(ErrorCode::unsupported, "this model has no chat template, so it can't chat; use `kvasir run`");
  const size_t answer = text.rfind(kAnswer);
  const size_t system_at = text.find(system);
  const size_t first = text.find(kMessage, system_at == std::string::npos ? 0 : system_at + system.size());
  const size_t second = text.rfind(kMessage);
  if (answer == std::string::npos || first == std::string::npos || first > answer || second < answer)
    throw Error(ErrorCode::unsupported,
                "this model's chat template leaves out what was said before, so the past can't be told turn by turn; "
                "leave out --memory episodes");
  const size_t behind_answer = answer + std::string(kAnswer).size();
  return {text.substr(0, first), text.substr(behind_answer, second - behind_answer),
          text.substr(second + std::string(kMessage).size())};
}

std::vector<int32_t> ChatFrame::opening_tokens(const Model& model) const {
  return tokenize_beginning(model, opening, true);
}

std::vector<int32_t> ChatFrame::message_tokens(const Model& model, const std::string& message, bool first) const {
  if (!first) return model.tokenize(closing + message + answer, false, true);
  const std::string before = opening.empty() ? "" : opening.substr(opening.size() - 1);
  return tokenize_continuation(model, before, message + answer, true);
}

}  // namespace kvasir
