// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kvasir {

// Porter's stemmer (Program 14(3), 1980), with the departures that are usual since: his own later ones (abli, logi) and
// those of NLTK, which the official LoCoMo score uses. For words in lower-case ASCII; any others come back as they are,
// but for the endings that are ASCII.
std::string porter_stem(std::string word);

}  // namespace kvasir
