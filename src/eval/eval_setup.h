// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What every task needs beside its own settings: a model, the cache under test, and where progress goes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "eval/logit_source.h"
#include "kvasir/engine.h"

namespace kvasir {

struct EvalSetup {
  std::shared_ptr<Model> model;
  SourceSpec kv;           // the cache under test, Kvasir's or llama.cpp's own
  int64_t context = 4096;  // tokens that one question with its answer may take
  int micro_batch = 512;
  int threads = 2;
  bool raw = false;  // text as it is, without the model's chat template

  std::function<void(const std::string&)> note;               // one line at a time; may be empty
  std::function<void(int64_t done, int64_t total)> progress;  // questions or tokens; may be empty
  std::function<void(const Cache&)> on_cache;                 // once, when the cache under test exists; may be empty
};

}  // namespace kvasir
