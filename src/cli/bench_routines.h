// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The routines of `kvasir bench attention`, one file each: they measure and print.
#pragma once

#include "cli/attention_setup.h"

namespace kvasir::cli {

// One step that generates a token in each sequence.
void bench_decode(const AttentionSetup& setup, bool json);
// A micro batch of a prompt at the end of a past.
void bench_prefill(const AttentionSetup& setup, bool json);
// Keys and values on their way into pages.
void bench_encode(const AttentionSetup& setup, bool json);
// Decode over several shapes and codecs: everything else comes from `flags`.
void bench_shapes(const AttentionFlags& flags, bool json);

}  // namespace kvasir::cli
