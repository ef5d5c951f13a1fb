// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/hidden_needle.h"

#include <fmt/format.h>

namespace kvasir {
namespace {

constexpr std::string_view kFor = " for ", kIs = " is: ", kOf = "of the special magic ", kEnd = ", does";

std::string listed(const std::vector<std::string>& keys) {
  std::string text;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) text += i + 1 == keys.size() ? " and " : ", ";
    text += keys[i];
  }
  return text;
}

// "numbers" for several, "number" for one.
std::string_view counted(std::string_view kind, bool several) {
  return several ? kind : kind.substr(0, kind.size() - 1);
}

// The keys of needle_question's list.
std::vector<std::string> listed_keys(std::string_view text) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const size_t end = text.find_first_of(", ");
    const std::string_view word = text.substr(0, end);
    if (!word.empty() && word != "and") keys.emplace_back(word);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return keys;
}

}  // namespace

std::string needle_sentence(const HiddenNeedle& needle, std::string_view kind) {
  return fmt::format("One {}{}{}{}{}{}.", kOf, kind, kFor, needle.key, kIs, needle.value);
}

std::string needle_instruction(std::string_view kind) {
  return fmt::format(
      "Somewhere in the text below, special magic {} are mentioned. Keep them in mind: the question "
      "after the text is about them.",
      kind);
}

std::string needle_question(const std::vector<std::string>& keys, std::string_view kind, bool several) {
  return fmt::format("Which special magic {}{}{}{} the text give?", counted(kind, several), kFor, listed(keys), kEnd);
}

std::string needle_answer_prefix(const std::vector<std::string>& keys, std::string_view kind, bool several) {
  return fmt::format("The special magic {}{}{} given in the text {}", counted(kind, several), kFor, listed(keys),
                     several ? "are:" : "is:");
}

std::vector<std::string> find_needle_values(std::string_view context, std::string_view question) {
  std::vector<std::string> values;
  const size_t first = question.find(kFor), last = question.find(kEnd);
  if (first == std::string_view::npos || last == std::string_view::npos) return values;
  const size_t start = first + kFor.size();
  for (const std::string& key : listed_keys(question.substr(start, last - start))) {
    const std::string before = fmt::format("{}{}{}", kFor, key, kIs);
    for (size_t at = context.find(before); at != std::string_view::npos; at = context.find(before, at + 1)) {
      const size_t value = at + before.size();
      values.emplace_back(context.substr(value, context.find('.', value) - value));
    }
  }
  return values;
}

}  // namespace kvasir
