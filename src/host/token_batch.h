// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// A llama_batch that owns its arrays.
#pragma once

#include <llama.h>

namespace kvasir {

class TokenBatch {
 public:
  explicit TokenBatch(int capacity) : batch_(llama_batch_init(capacity, 0, 1)), capacity_(capacity) {}
  ~TokenBatch() { llama_batch_free(batch_); }
  TokenBatch(const TokenBatch&) = delete;
  TokenBatch& operator=(const TokenBatch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  int size() const { return batch_.n_tokens; }
  int room() const { return capacity_ - batch_.n_tokens; }

  void add(llama_token token, llama_pos position, llama_seq_id sequence, bool logits) {
    const int row = batch_.n_tokens++;
    batch_.token[row] = token;
    batch_.pos[row] = position;
    batch_.n_seq_id[row] = 1;
    batch_.seq_id[row][0] = sequence;
    batch_.logits[row] = logits ? 1 : 0;
  }

  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
  int capacity_;
};

}  // namespace kvasir
