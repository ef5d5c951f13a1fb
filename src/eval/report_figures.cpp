// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/report_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "eval/report_numbers.h"

namespace kvasir {
namespace {

constexpr double kWidth = 470, kHeight = 330;
constexpr double kLeft = 58, kRight = 14, kTop = 30, kBottom = 42;
constexpr double kSmallest = 1e-9;  // a KLD of zero has no place on a logarithmic axis

struct Axis {
  double low, high, from, to;  // values and where they are drawn
  double place(double value) const {
    const double share = (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return from + share * (to - from);
  }
};

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* style = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>", x, y, anchor, style,
                     escape_markup(text));
}

std::string line_from(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>", x1, y1, x2, y2, style);
}

// Kvasir's codecs are dots, published settings rings, llama.cpp's caches squares.
std::string mark(const ReportCell& cell, double x, double y) {
  constexpr double kSize = 4.2;
  if (cell.native())
    return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"#c2571a\"/>", x - kSize + 0.4,
                       y - kSize + 0.4, 2 * kSize - 0.8, 2 * kSize - 0.8);
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" {}/>", x, y, kSize,
                     cell.preset ? "fill=\"#fff\" stroke=\"#2a6f4e\" stroke-width=\"1.8\"" : "fill=\"#1f5fa8\"");
}

struct Point {
  const ReportCell* cell;
  double x, y, bits, kld, low, high;
  double label_x = 0, label_y = 0;
  bool to_the_left = false;
};

struct Box {
  double x1, y1, x2, y2;
  bool meets(const Box& other) const { return x1 < other.x2 && other.x1 < x2 && y1 < other.y2 && other.y1 < y2; }
};

Box label_box(const Point& point) {
  constexpr double kLetter = 5.6, kAscent = 8.5, kDescent = 2.5;
  const double width = kLetter * double(point.cell->method.size());
  const double left = point.to_the_left ? point.label_x - width : point.label_x;
  return {left, point.label_y - kAscent, left + width, point.label_y + kDescent};
}

// Each label goes to the nearest place, right or left of its mark, where it covers neither marks nor other labels.
void place_labels(std::vector<Point>& points) {
  constexpr double kGap = 7, kStep = 4;
  constexpr int kSteps = 30;
  std::vector<Box> taken;
  for (const Point& point : points) taken.push_back({point.x - 5, point.y - 5, point.x + 5, point.y + 5});
  for (Point& point : points) {
    bool placed = false;
    for (int step = 0; step < 2 * kSteps && !placed; ++step) {
      const double shift = kStep * double((step + 1) / 2) * (step % 2 == 0 ? 1 : -1);
      for (const bool left : {false, true}) {
        point.to_the_left = left;
        point.label_x = point.x + (left ? -kGap : kGap);
        point.label_y = point.y + 3.5 + shift;
        const Box box = label_box(point);
        placed = box.x1 > kLeft && box.x2 < kWidth - 2 && box.y1 > kTop - 4 && box.y2 < kHeight - kBottom &&
                 std::ranges::none_of(taken, [&](const Box& other) { return box.meets(other); });
        if (placed) break;
      }
    }
    taken.push_back(label_box(point));
  }
}

std::string frame(const Axis& x, const Axis& y) {
  std::string svg;
  const char* grid = "stroke=\"#e3e3e3\" stroke-width=\"1\"";
  constexpr double kTickRoom = 26;
  double last_tick = -kTickRoom;
  for (const double bits :
       {1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 24.0, 32.0}) {
    const double place = x.place(bits);
    if (bits < x.low || bits > x.high || place - last_tick < kTickRoom) continue;
    last_tick = place;
    svg += line_from(place, kTop, place, kHeight - kBottom, grid);
    svg += text_at(place, kHeight - kBottom + 15, "middle", fmt::format("{:g}", bits));
  }
  const int first = int(std::floor(std::log10(y.low))), last = int(std::ceil(std::log10(y.high)));
  for (int exponent = first; exponent <= last; ++exponent) {
    const double value = std::pow(10.0, exponent);
    if (value < y.low * 0.999 || value > y.high * 1.001) continue;
    svg += line_from(kLeft, y.place(value), kWidth - kRight, y.place(value), grid);
    svg += text_at(kLeft - 6, y.place(value) + 3.5, "end", power_of_ten(exponent));
  }
  svg += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\" stroke-width=\"1\"/>", kLeft,
      kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom);
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "bits a value, everything counted");
  svg += fmt::format(
      "<text x=\"14\" y=\"{:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.1f})\">mean KLD, "
      "nats</text>",
      (kTop + kHeight - kBottom) / 2, (kTop + kHeight - kBottom) / 2);
  return svg;
}

// `size`: how the page may scale it, a class of its style sheet.
std::string opened(const char* size, double width, double height, const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{3}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\" font-family=\"sans-serif\" font-size=\"10.5\" fill=\"#222\">",
      width, height, escape_markup(title), size);
}

}  // namespace

std::string escape_markup(const std::string& text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  return escaped;
}

std::string pareto_figure(const std::string& title, const std::vector<const ReportCell*>& cells) {
  std::vector<Point> points;
  double low = std::numeric_limits<double>::infinity(), high = 0, fewest = low, most = 0;
  for (const ReportCell* cell : cells) {
    const double kld = std::max(cell->number("kld", "mean"), kSmallest), bits = cell->number("bits_per_value");
    if (!cell->done() || !std::isfinite(kld) || !(bits > 0)) continue;
    const double error = cell->number("kld", "se");
    points.push_back({cell, 0, 0, bits, kld, std::max(kld - error, kld / 10), kld + error});
    low = std::min(low, kld), high = std::max(high, kld);
    fewest = std::min(fewest, bits), most = std::max(most, bits);
  }
  if (points.empty()) return {};
  const Axis x{fewest * 0.93, most * 1.12, kLeft, kWidth - kRight};
  const Axis y{std::pow(10.0, std::floor(std::log10(low) - 0.1)), std::pow(10.0, std::ceil(std::log10(high) + 0.1)),
               kHeight - kBottom, kTop};
  for (Point& point : points) point.x = x.place(point.bits), point.y = y.place(point.kld);
  std::ranges::sort(points, {}, &Point::y);
  place_labels(points);

  std::string svg = opened("large", kWidth, kHeight, title) +
                    text_at(kLeft, 18, "start", title, "font-weight=\"bold\"") + frame(x, y);
  std::string path;
  for (const ReportCell* cell : pareto_front(cells))
    path += fmt::format("{:.1f},{:.1f} ", x.place(cell->number("bits_per_value")),
                        y.place(std::max(cell->number("kld", "mean"), kSmallest)));
  svg += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"#777\" stroke-width=\"1.2\" "
      "stroke-dasharray=\"5 3\"/>",
      path);
  for (const Point& point : points) {
    svg += line_from(point.x, y.place(point.low), point.x, y.place(point.high), "stroke=\"#333\" stroke-width=\"1\"");
    const double near_x = point.to_the_left ? point.label_x + 1 : point.label_x - 1;
    if (std::abs(point.label_y - 3.5 - point.y) > 6)
      svg += line_from(point.x, point.y, near_x, point.label_y - 3.5, "stroke=\"#aaa\" stroke-width=\"0.7\"");
    svg += mark(*point.cell, point.x, point.y);
    svg += text_at(point.label_x, point.label_y, point.to_the_left ? "end" : "start", point.cell->method,
                   "stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"");
  }
  return svg + "</svg>";
}

std::string needle_figure(const std::string& title, const ReportCell& cell) {
  constexpr double kSquare = 36, kTextLeft = 44, kTitle = 22, kAxis = 30;
  std::set<int64_t> lengths;
  std::set<double> depths;
  const auto& fields = cell.result.at("cells");
  for (const auto& field : fields) {
    lengths.insert(field.at("length").get<int64_t>());
    depths.insert(field.at("depth").get<double>());
  }
  const double height = kTitle + kSquare * 0.7 * double(lengths.size()) + kAxis;
  std::string svg = opened("small", kTextLeft + kSquare * double(depths.size()) + 6, height, title) +
                    text_at(0, 13, "start", title, "font-weight=\"bold\"");
  const auto column = [&](double depth) { return double(std::distance(depths.begin(), depths.find(depth))); };
  const auto row = [&](int64_t length) { return double(std::distance(lengths.begin(), lengths.find(length))); };
  for (const auto& field : fields) {
    const double score = field.at("score").get<double>();
    const double x = kTextLeft + kSquare * column(field["depth"].get<double>());
    const double y = kTitle + kSquare * 0.7 * row(field["length"].get<int64_t>());
    // From white to blue; the number is there for whoever prints without colour.
    const auto shade = [&](int full) { return int(std::lround(255 + score * (full - 255))); };
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" fill=\"#{:02x}{:02x}{:02x}\" "
        "stroke=\"#999\" stroke-width=\"0.5\"/>",
        x, y, kSquare, kSquare * 0.7, shade(31), shade(95), shade(168));
    svg += text_at(x + kSquare / 2, y + kSquare * 0.35 + 4, "middle", fmt::format("{:.0f}", 100 * score),
                   score > 0.55 ? "fill=\"#fff\"" : "");
  }
  for (const int64_t length : lengths)
    svg += text_at(kTextLeft - 5, kTitle + kSquare * 0.7 * (row(length) + 0.5) + 4, "end", fmt::format("{}", length));
  for (const double depth : depths)
    svg += text_at(kTextLeft + kSquare * (column(depth) + 0.5), height - kAxis + 13, "middle",
                   fmt::format("{:g} %", depth));
  return svg + "</svg>";
}

}  // namespace kvasir
