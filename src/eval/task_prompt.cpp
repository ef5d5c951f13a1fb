// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/task_prompt.h"

#include <llama.h>

#include <algorithm>

#include "kvasir/error.h"

namespace kvasir {
namespace {

struct SplitText {
  std::string head, tail;
};

SplitText plain(const TaskSample& sample) {
  if (sample.context.empty()) return {"", sample.question + "\n" + sample.answer_prefix};
  return {sample.context, "\n\n" + sample.question + "\n" + sample.answer_prefix};
}

// The rendered prompt is cut behind the context, so both parts read exactly as the template wrote them.
SplitText templated(const Model& model, const TaskSample& sample) {
  const std::string separator = sample.context.empty() ? "" : "\n\n";
  const std::vector<Model::Message> messages = {{"user", sample.context + separator + sample.question}};
  const std::string text = model.apply_chat_template(messages, true);
  const size_t start = sample.context.empty() ? std::string::npos : text.find(sample.context);
  if (start == std::string::npos) return {"", text + sample.answer_prefix};
  const size_t end = start + sample.context.size();
  return {text.substr(0, end), text.substr(end) + sample.answer_prefix};
}

}  // namespace

bool uses_chat_template(const Model& model, bool raw) {
  if (raw || llama_model_chat_template(model.handle(), nullptr) == nullptr) return false;
  try {
    const std::vector<Model::Message> messages = {{"user", "hello"}};
    model.apply_chat_template(messages, true);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    throw Error(ErrorCode::unsupported,
                "llama.cpp doesn't know this model's chat template; give --raw to ask without one");
  }
  return true;
}

TaskPrompt tokenize_sample(const Model& model, const TaskSample& sample, bool raw) {
  const bool chat = uses_chat_template(model, raw);
  const SplitText text = chat ? templated(model, sample) : plain(sample);
  TaskPrompt prompt;
  if (text.head.empty()) {
    prompt.tail = tokenize_beginning(model, text.tail, chat);
  } else {
    prompt.head = tokenize_beginning(model, text.head, chat);
    prompt.tail = tokenize_continuation(model, text.head.substr(text.head.size() - 1), text.tail, chat);
  }
  const std::string& prefix = sample.answer_prefix;
  prompt.right_answer = tokenize_continuation(model, prefix, sample.right_answer(), false);
  return prompt;
}

}  // namespace kvasir
