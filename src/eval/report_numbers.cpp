// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/report_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvasir {
namespace {

constexpr const char* kNone = "–";

// Digits behind the point that a value with this error deserves: the error's first two.
int worthy_digits(double error) {
  if (!(error > 0)) return 3;
  return std::clamp(1 - int(std::floor(std::log10(error))), 0, 4);
}

bool plain(double value) {
  return value == 0 || (std::abs(value) >= 0.1 && std::abs(value) < 1000);
}

}  // namespace

std::string with_error(double value, double error) {
  if (!std::isfinite(value)) return kNone;
  if (plain(value)) return with_error_fixed(value, error, worthy_digits(error));
  const int exponent = int(std::floor(std::log10(std::abs(value))));
  const double unit = std::pow(10.0, exponent);
  const int digits = std::max(1, worthy_digits(error / unit));
  return fmt::format("({:.{}f} ± {:.{}f})·{}", value / unit, digits, error / unit, digits, power_of_ten(exponent));
}

std::string with_error_fixed(double value, double error, int digits) {
  if (!std::isfinite(value)) return kNone;
  return std::isfinite(error) ? fmt::format("{:.{}f} ± {:.{}f}", value, digits, error, digits) : fixed(value, digits);
}

std::string fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : kNone;
}

std::string scientific(double value) {
  if (!std::isfinite(value)) return kNone;
  if (plain(value)) return fmt::format("{:.3g}", value);
  const int exponent = int(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.2f}·{}", value / std::pow(10.0, exponent), power_of_ten(exponent));
}

std::string power_of_ten(int exponent) {
  static constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += kDigits[digit - '0'];
  return text;
}

std::string byte_count(double bytes) {
  if (!std::isfinite(bytes)) return kNone;
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(units)) bytes /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

}  // namespace kvasir
