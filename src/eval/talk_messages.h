// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What a user says in a long talk, message by message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvasir {

// Both sides of a dialogue about many topics, which return again and again (eval/dialogue.h).
std::vector<std::string> dialogue_messages(size_t count, uint64_t seed);

// The first utterances of a file's first conversation, in the format of LoCoMo or RealTalk; those without words are
// left out. Throws Error invalid_argument (fewer than `count`), and what read_conversations throws.
std::vector<std::string> recorded_messages(const std::string& path, size_t count);

}  // namespace kvasir
