// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/turns_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text_table.h"

namespace kvasir::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// What all turns of a way come to.
struct Sums {
  double seconds = 0, first_token = 0, generate = 0, rebuild = 0;
  size_t clustered = 0, selected = 0, opened = 0;
  int64_t decoded = 0, prompts = 0;
  size_t bytes = 0, peak_bytes = 0;
};

Sums sums_of(const WayTimes& way) {
  Sums sums;
  for (const TurnCost& turn : way.turns) {
    sums.seconds += turn.total();
    sums.first_token += turn.first_token();
    sums.generate += turn.generate;
    sums.rebuild += turn.rebuild();
    sums.clustered += turn.clustered;
    sums.selected += turn.selected;
    sums.opened += turn.opened;
    sums.decoded += turn.decoded;
    sums.prompts += turn.prompts;
    sums.bytes = turn.bytes;
    sums.peak_bytes = std::max(sums.peak_bytes, turn.peak_bytes);
  }
  return sums;
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.0f}", 1000 * seconds);
}

std::string stretches_table(const PlayedTalk& played) {
  const std::vector<Stretch> parts = stretches(played.turns);
  Rows rows = {{"ms a turn"}};
  for (const Stretch& part : parts)
    rows[0].push_back(part.first == part.last ? fmt::format("{}", part.first)
                                              : fmt::format("{}-{}", part.first, part.last));
  for (const WayTimes& way : played.ways) {
    const std::vector<double> seconds = turn_seconds(way);
    rows.push_back({way.name});
    for (const Stretch& part : parts) {
      const std::span<const double> some = within(seconds, part);
      rows.back().push_back(
          fmt::format("{} ({})", milliseconds(median({some.begin(), some.end()})), milliseconds(mean(some))));
    }
  }
  return text_table(rows);
}

std::string sums_table(const PlayedTalk& played) {
  Rows rows = {{"", "total s", "to first token", "generating", "rebuilding", "clustered", "selected", "opened",
                "decoded", "of prompts", "at the end", "peak"}};
  for (const WayTimes& way : played.ways) {
    const Sums sums = sums_of(way);
    rows.push_back({way.name, fmt::format("{:.1f}", sums.seconds), fmt::format("{:.1f}", sums.first_token),
                    fmt::format("{:.1f}", sums.generate), fmt::format("{:.1f}", sums.rebuild)});
    for (const size_t count : {sums.clustered, sums.selected, sums.opened})
      rows.back().push_back(in_episodes(way) ? fmt::format("{}", count) : "");
    rows.back().push_back(fmt::format("{}", sums.decoded));
    rows.back().push_back(in_episodes(way) ? fmt::format("{}", sums.prompts) : "");
    rows.back().push_back(format_bytes(sums.bytes));
    rows.back().push_back(format_bytes(sums.peak_bytes));
  }
  return text_table(rows);
}

// Of each way of episodes against each other one.
template <typename Visit>
void each_pair(const PlayedTalk& played, Visit visit) {
  for (const WayTimes& ours : played.ways)
    for (const WayTimes& theirs : played.ways) {
      if (!in_episodes(ours) || in_episodes(theirs)) continue;
      const std::vector<double> our_seconds = turn_seconds(ours), their_seconds = turn_seconds(theirs);
      visit(ours, theirs, break_even_by_median(our_seconds, their_seconds),
            break_even_by_total(our_seconds, their_seconds));
    }
}

std::string break_even_table(const PlayedTalk& played) {
  const auto text = [&](const std::optional<size_t>& turn) {
    return turn ? fmt::format("{}", *turn) : fmt::format("not within {} turns", played.turns);
  };
  Rows rows = {{"cheaper from turn ... on", "by the turn", "by all so far"}};
  each_pair(played, [&](const WayTimes& ours, const WayTimes& theirs, const auto& by_median, const auto& by_total) {
    rows.push_back({fmt::format("{} than {}", ours.name, theirs.name), text(by_median), text(by_total)});
  });
  return rows.size() > 1 ? "\n" + text_table(rows) : "";
}

Json columns(const WayTimes& way) {
  Json turns = Json::object();
  for (const char* name : {"seconds", "prepare", "read", "generate", "finish", "first_token", "rebuild", "clustered",
                           "selected", "opened", "episode", "talk_tokens", "decoded", "prompts", "bytes", "peak_bytes"})
    turns[name] = Json::array();
  for (const TurnCost& turn : way.turns) {
    turns["seconds"].push_back(turn.total());
    turns["prepare"].push_back(turn.prepare);
    turns["read"].push_back(turn.read);
    turns["generate"].push_back(turn.generate);
    turns["finish"].push_back(turn.finish);
    turns["first_token"].push_back(turn.first_token());
    turns["rebuild"].push_back(turn.rebuild());
    turns["clustered"].push_back(turn.clustered);
    turns["selected"].push_back(turn.selected);
    turns["opened"].push_back(turn.opened);
    turns["episode"].push_back(turn.episode);
    turns["talk_tokens"].push_back(turn.talk_tokens);
    turns["decoded"].push_back(turn.decoded);
    turns["prompts"].push_back(turn.prompts);
    turns["bytes"].push_back(turn.bytes);
    turns["peak_bytes"].push_back(turn.peak_bytes);
  }
  return turns;
}

}  // namespace

bool in_episodes(const WayTimes& way) {
  return way.name.starts_with("episodes ");
}

std::string turns_tables(const PlayedTalk& played) {
  return "Median time of a turn, and the mean, which rebuilding counts in:\n" + stretches_table(played) + "\n" +
         sums_table(played) + break_even_table(played);
}

Json turns_json(const PlayedTalk& played) {
  Json ways = Json::array(), pairs = Json::array();
  for (const WayTimes& way : played.ways) {
    const Sums sums = sums_of(way);
    ways.push_back({{"name", way.name},
                    {"seconds", sums.seconds},
                    {"first_token", sums.first_token},
                    {"generate", sums.generate},
                    {"rebuild", sums.rebuild},
                    {"clustered", sums.clustered},
                    {"selected", sums.selected},
                    {"opened", sums.opened},
                    {"decoded", sums.decoded},
                    {"prompts", sums.prompts},
                    {"bytes", sums.bytes},
                    {"peak_bytes", sums.peak_bytes},
                    {"turns", columns(way)}});
    Json& parts = ways.back()["stretches"] = Json::array();
    const std::vector<double> seconds = turn_seconds(way);
    for (const Stretch& part : stretches(played.turns)) {
      const std::span<const double> some = within(seconds, part);
      parts.push_back({{"first", part.first},
                       {"last", part.last},
                       {"median", median({some.begin(), some.end()})},
                       {"mean", mean(some)}});
    }
  }
  const auto or_null = [](const std::optional<size_t>& turn) { return turn ? Json(*turn) : Json(); };
  each_pair(played, [&](const WayTimes& ours, const WayTimes& theirs, const auto& by_median, const auto& by_total) {
    pairs.push_back({{"way", ours.name},
                     {"against", theirs.name},
                     {"by_median", or_null(by_median)},
                     {"by_total", or_null(by_total)}});
  });
  return {{"played", played.turns}, {"ways", std::move(ways)}, {"break_even", std::move(pairs)}};
}

}  // namespace kvasir::cli
