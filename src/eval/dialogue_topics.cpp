// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/dialogue_topics.h"

namespace kvasir {

const std::vector<DialogueTopic>& dialogue_topics() {
  static const std::vector<DialogueTopic> topics = [] {
    std::vector<DialogueTopic> all = topics_at_home(), away = topics_away();
    all.insert(all.end(), away.begin(), away.end());
    return all;
  }();
  return topics;
}

}  // namespace kvasir
