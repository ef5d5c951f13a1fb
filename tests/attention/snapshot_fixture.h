// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Sequences that were saved and restored, next to ones that never stopped.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "attend_fixture.h"
#include "kvasir/error.h"
#include "kvasir/session.h"
#include "tests/base/temporary_folder.h"

namespace kvasir {

inline SequenceRecord record_of(int tokens, const std::string& data = "data") {
  SequenceRecord record{"model-1", "a model", {}, data};
  for (int i = 0; i < tokens; ++i) record.tokens.push_back(i * 7);
  return record;
}

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Restoring has to fail with that code, with one sentence that names the file, and leave the cache as it is.
inline void expect_refused(Cache& cache, const std::string& path, ErrorCode code, const std::string& what = {},
                           const std::string& model = "model-1") {
  const CacheSize before = cache.size();
  const size_t sequences = cache.impl().sequences.size();
  try {
    restore_sequence(cache, path, model);
    ADD_FAILURE() << "restored: " << path << " " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    const std::string message = error.what();
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(cache.impl().sequences.size(), sequences);
  EXPECT_EQ(cache.size().total(), before.total());
  EXPECT_EQ(cache.size().mapped, before.mapped);
  EXPECT_EQ(cache.impl().pool.used(), before.pages + before.windows);
}

}  // namespace kvasir
