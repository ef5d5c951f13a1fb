// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/talk_messages.h"

#include <fmt/format.h>

#include "eval/conversation_file.h"
#include "eval/dialogue.h"
#include "kvasir/error.h"

namespace kvasir {

std::vector<std::string> dialogue_messages(size_t count, uint64_t seed) {
  DialogueOptions options;
  options.seed = seed;
  options.utterances = int64_t(count);
  options.facts = options.updates = 0;  // nobody asks for them here
  std::vector<std::string> messages;
  for (const Utterance& utterance : make_dialogue(options).transcript) messages.push_back(utterance.text);
  return messages;
}

std::vector<std::string> recorded_messages(const std::string& path, size_t count) {
  const RecordedConversation conversation = read_conversations(path).front();
  std::vector<std::string> messages;
  for (const Utterance& utterance : transcript_of(conversation))
    if (utterance.text.find_first_not_of(" \t\r\n") != std::string::npos) messages.push_back(utterance.text);
  if (messages.size() < count)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the first conversation of `{}` has {} messages, and --turns asks for {}; lower it", path,
                            messages.size(), count));
  messages.resize(count);
  return messages;
}

}  // namespace kvasir
