// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// From a sample's text to tokens, through the model's own chat template.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/task_sample.h"
#include "host/text_tokens.h"
#include "kvasir/engine.h"

namespace kvasir {

// The context can be read once for several questions: `head` ends where the context ends.
struct TaskPrompt {
  std::vector<int32_t> head;  // with BOS where the model wants one; ends the template's opening and the context
  std::vector<int32_t> tail;  // the question, the template's end and the answer prefix
  std::vector<int32_t> right_answer;

  int64_t tokens() const { return int64_t(head.size() + tail.size()); }
};

// Whether `raw` leaves out the chat template, or the model has none. Throws Error unsupported for a template that
// llama.cpp doesn't know (the message names --raw).
bool uses_chat_template(const Model& model, bool raw);

TaskPrompt tokenize_sample(const Model& model, const TaskSample& sample, bool raw);

}  // namespace kvasir
