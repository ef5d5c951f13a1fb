// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What `kvasir bench turns` says of a played talk.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "eval/kept_talk.h"

namespace kvasir::cli {

// Tables: times by stretches of turns, what they are made of, memory, and break-even turns.
std::string turns_tables(const PlayedTalk& played);

// "ways": for each, every turn's numbers as columns, and their sums; "break_even": each way of episodes against each
// other way, null where it doesn't within these turns.
Json turns_json(const PlayedTalk& played);

// Whether a way's name is one of episodes.
bool in_episodes(const WayTimes& way);

}  // namespace kvasir::cli
