// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// --memory episodes and the flags that go with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "episode/encoder.h"
#include "host/episodic_session.h"

namespace CLI {
class App;
}

namespace kvasir::cli {

struct MemoryFlags {
  std::string memory = "full";    // --memory: full, episodes
  int64_t budget = 1024;          // --budget
  int block = 0;                  // --block; 0: as the budget, 128 to 1024
  int episodes = 4;               // --episodes
  std::string encoder = "words";  // --encoder
  double alpha = 0;               // --alpha
  std::string store_bytes;        // --store-bytes
  double new_below = -2;          // --new-below; -2: the encoder's own

  bool episodic() const { return memory == "episodes"; }
};

void add_memory_flags(CLI::App& command, MemoryFlags& flags);
// All but --memory, for commands that choose by another flag.
void add_episode_flags(CLI::App& command, MemoryFlags& flags);

// What can be checked without a model. Throws Error invalid_argument: flags of episodes where they aren't `chosen` too.
void check_memory_flags(const CLI::App& command, const MemoryFlags& flags);
void check_episode_flags(const CLI::App& command, const MemoryFlags& flags, const std::string& chosen);

// The second engine, the encoder and the options of a chat on `answering`, which outlives it.
class EpisodicParts {
 public:
  EpisodicParts(const std::shared_ptr<Model>& model, Engine& answering, const MemoryFlags& flags);
  EpisodicSetup setup() { return {reading_, answering_, *encoder_, options_}; }
  nlohmann::json settings() const;

 private:
  Engine& answering_;
  MemoryFlags flags_;
  Engine reading_;
  std::unique_ptr<Encoder> encoder_;
  EpisodicOptions options_;
};

}  // namespace kvasir::cli
