// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace kvasir {

// What went wrong, coarse enough for a caller to decide what to do next.
enum class ErrorCode {
  invalid_argument,  // the request itself is wrong: name the flag or field to change
  unsupported,       // well formed, but this build or model can't do it
  not_found,         // a file, model name or codec name doesn't exist
  corrupt,           // bytes that aren't what they claim to be
  out_of_memory,     // the pool's budget is spent; nothing was changed
  context_full,      // more tokens than the context the caller asked for
  io,                // the operating system refused
  internal,          // a broken invariant: a bug in Kvasir or a changed host graph
};

// The one exception type that crosses the library's border. The message is one sentence that says what was
// asked, what is possible and what to change. Library code never prints and never aborts.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace kvasir
