// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kvasir {

// Turns texts into vectors whose angles say how much they are about the same thing. All vectors of an encoder have one
// length and L2 norm 1, or are zero where a text holds nothing to go by. The same texts give the same vectors.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Names the encoder and all that its vectors depend on; stored with them.
  virtual std::string name() const = 0;

  // Takes in what is usual in this conversation, in place of what was taken in before. Vectors made before and after
  // aren't comparable. Encoders that need no such thing ignore it.
  virtual void learn(std::span<const std::string> segments) { (void)segments; }

  // What learn() took in, for put_back() in another run. Empty where learning the same segments again takes no time.
  virtual std::vector<float> learned() const { return {}; }
  virtual void put_back(std::span<const float> learned) { (void)learned; }

  virtual std::vector<std::vector<float>> encode_segments(std::span<const std::string> segments) = 0;
  virtual std::vector<float> encode_query(const std::string& query) = 0;
};

}  // namespace kvasir
