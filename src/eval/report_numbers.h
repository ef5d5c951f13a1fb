// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as the report prints them: no more digits than the error allows.
#pragma once

#include <string>

namespace kvasir {

std::string with_error(double value, double error);  // "(1.23 ± 0.04)·10⁻³", "0.412 ± 0.009"; "–" for NaN
std::string with_error_fixed(double value, double error, int digits);  // "97.35 ± 0.21"
std::string fixed(double value, int digits);                           // "–" for NaN
std::string scientific(double value);                                  // "1.23·10⁻³"
std::string power_of_ten(int exponent);                                // "10⁻³"
std::string byte_count(double bytes);                                  // "12.3 MB"

}  // namespace kvasir
