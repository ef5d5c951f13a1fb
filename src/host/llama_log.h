// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp's log, silenced. The first error line of a call is kept: when the call fails it's the reason, and the
// lines after it only say that something failed.
#pragma once

#include <string>

namespace kvasir {

// Installs the log callback (once a process) and starts llama.cpp's backends. Every entry of the host calls it first.
void start_llama();

// Forgets the line kept so far; call before something that may fail.
void clear_llama_error();

// The first error line since then, without llama.cpp's function names; "no reason given" if there was none.
std::string llama_error();

}  // namespace kvasir
