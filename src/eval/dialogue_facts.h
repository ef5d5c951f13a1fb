// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The facts of a made-up dialogue before they have a place in it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/dialogue.h"
#include "eval/dialogue_topics.h"

namespace kvasir {

struct PlannedFact {
  const FactPattern* pattern = nullptr;
  int owner = 0;  // the speaker who tells it, 0 or 1
  DialogueQuestion question;
};

// As many as options.facts, one of each topic in turn, options.updates of them with an old answer. Throws Error
// invalid_argument where the topics don't hold so many.
std::vector<PlannedFact> plan_facts(const DialogueOptions& options, std::span<const DialogueTopic* const> topics,
                                    const std::array<std::string, 2>& speakers, uint64_t seed);

// A pattern with its places filled; {new} is the old answer in the telling of a fact that changes.
std::string telling_of(const PlannedFact& fact);
std::string update_of(const PlannedFact& fact);

}  // namespace kvasir
