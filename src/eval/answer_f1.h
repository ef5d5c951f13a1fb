// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// How much of an answer is right, by its words: the F1 of two multisets of tokens, 0 to 1.
#pragma once

#include <string_view>

namespace kvasir {

// As EpiCache (arXiv 2509.17396) scores LoCoMo, RealTalk and LongMemEval: lower case, no ASCII punctuation, no a, an
// and the, zero to nine as digits. 0 where either has no token left.
double answer_f1(std::string_view answer, std::string_view gold);

// LoCoMo's own score (arXiv 2402.17753), higher in general and not comparable with the above: Porter stems, no "and"
// either, number words as they are. Category 1 (several facts): the mean over the gold answer's comma-separated parts
// of the best part of the answer. Category 3: the gold answer ends at its first semicolon. Category 5 (the question has
// no answer): 1 for an answer that says so.
double locomo_f1(std::string_view answer, std::string_view gold, int category);

}  // namespace kvasir
