// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The needle that RULER hides: a key and a value in one sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

struct HiddenNeedle {
  std::string key, value;
};

// `kind` is the plural that RULER uses: "numbers", "uuids".
std::string needle_sentence(const HiddenNeedle& needle, std::string_view kind);

// Instruction before the haystack, question after it, beginning of the answer, for one or more keys.
std::string needle_instruction(std::string_view kind);
std::string needle_question(const std::vector<std::string>& keys, std::string_view kind, bool several);
std::string needle_answer_prefix(const std::vector<std::string>& keys, std::string_view kind, bool several);

// The reverse of the above, for the solver: every value that `context` gives for the keys that `question` names.
std::vector<std::string> find_needle_values(std::string_view context, std::string_view question);

}  // namespace kvasir
