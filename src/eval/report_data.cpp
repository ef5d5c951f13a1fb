// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;

Json read_object(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(ErrorCode::not_found,
                fmt::format("no `{}`; `kvasir eval suite -o DIR` writes what a report is made of", path.string()));
  Json value = Json::parse(file, nullptr, false);
  if (!value.is_object()) throw Error(ErrorCode::corrupt, fmt::format("`{}` isn't a JSON object", path.string()));
  return value;
}

template <typename Value, typename Of>
std::vector<Value> distinct(const std::vector<ReportCell>& cells, Of of) {
  std::vector<Value> values;
  for (const ReportCell& cell : cells) {
    const Value value = of(cell);
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

ReportCell read_cell(const std::filesystem::path& folder, const Json& entry) {
  ReportCell cell;
  cell.id = entry.at("id").get<std::string>();
  cell.model = entry.at("model").get<std::string>();
  cell.task = entry.at("task").get<std::string>();
  cell.method = entry.at("method").get<std::string>();
  cell.status = entry.at("status").get<std::string>();
  cell.reason = entry.value("reason", "");
  cell.preset = entry.value("preset", false);
  cell.context = entry.value("context", int64_t(0));
  if (!cell.done()) return cell;
  const Json file = read_object(folder / entry.at("file").get<std::string>());
  cell.parameters = file.at("parameters");
  cell.result = file.at("result");
  return cell;
}

}  // namespace

bool ReportCell::native() const {
  return parameters.is_object() && parameters.contains("method") && parameters["method"].value("native", false);
}

double ReportCell::number(const char* key) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (!result.is_object() || !result.contains(key) || !result[key].is_number()) return kNone;
  return result[key].get<double>();
}

double ReportCell::number(const char* key, const char* inner) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (!result.is_object() || !result.contains(key) || !result[key].is_object()) return kNone;
  return result[key].contains(inner) && result[key][inner].is_number() ? result[key][inner].get<double>() : kNone;
}

std::vector<std::string> ReportData::models() const {
  return distinct<std::string>(cells, [](const ReportCell& c) { return c.model; });
}
std::vector<std::string> ReportData::tasks() const {
  return distinct<std::string>(cells, [](const ReportCell& c) { return c.task; });
}
std::vector<std::string> ReportData::methods() const {
  return distinct<std::string>(cells, [](const ReportCell& c) { return c.method; });
}

std::vector<int64_t> ReportData::contexts(const std::string& model) const {
  std::vector<int64_t> lengths;
  for (const ReportCell& cell : cells)
    if (cell.model == model && cell.task == "kld" && std::ranges::find(lengths, cell.context) == lengths.end())
      lengths.push_back(cell.context);
  std::ranges::sort(lengths);
  return lengths;
}

std::vector<const ReportCell*> ReportData::find(const std::string& model, const std::string& task,
                                                int64_t context) const {
  std::vector<const ReportCell*> found;
  for (const ReportCell& cell : cells)
    if (cell.model == model && cell.task == task && cell.context == context) found.push_back(&cell);
  return found;
}

const ReportCell* ReportData::find(const std::string& model, const std::string& task, int64_t context,
                                   const std::string& method) const {
  for (const ReportCell* cell : find(model, task, context))
    if (cell->method == method) return cell;
  return nullptr;
}

ReportData load_report(const std::string& folder) {
  ReportData data;
  data.index = read_object(std::filesystem::path(folder) / "suite.json");
  try {
    for (const Json& entry : data.index.at("cells")) data.cells.push_back(read_cell(folder, entry));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt, fmt::format("the suite in `{}` can't be read: {}", folder, error.what()));
  }
  return data;
}

std::vector<const ReportCell*> pareto_front(const std::vector<const ReportCell*>& cells) {
  std::vector<const ReportCell*> measured;
  for (const ReportCell* cell : cells)
    if (cell->done() && std::isfinite(cell->number("kld", "mean")) && cell->number("bits_per_value") > 0)
      measured.push_back(cell);
  std::ranges::sort(measured, [](const ReportCell* a, const ReportCell* b) {
    return std::make_pair(a->number("bits_per_value"), a->number("kld", "mean")) <
           std::make_pair(b->number("bits_per_value"), b->number("kld", "mean"));
  });
  std::vector<const ReportCell*> front;
  for (const ReportCell* cell : measured)
    if (front.empty() || cell->number("kld", "mean") < front.back()->number("kld", "mean")) front.push_back(cell);
  return front;
}

}  // namespace kvasir
