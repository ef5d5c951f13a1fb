// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// One turn of a chat with --memory episodes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/conversation.h"
#include "host/episodic_chat.h"

namespace kvasir::cli {

struct EpisodicTurn : Turn {
  EpisodicMemory::Retrieved episode;
  bool clustered = false;
};

// One user message and the answer. A turn that throws or is interrupted, while it is read or answered, leaves the chat
// as before.
EpisodicTurn say(EpisodicChat& chat, const std::string& message, Sampler& sampler, int64_t most_tokens,
                 const InterruptGuard& interrupt, const std::function<void(std::string_view)>& on_text);

}  // namespace kvasir::cli
