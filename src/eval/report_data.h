// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// What a suite's folder holds, in the order that the report shows it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir {

struct ReportCell {
  std::string id, model, task, method, status, reason;
  bool preset = false;
  int64_t context = 0;
  nlohmann::ordered_json parameters, result;  // null unless status is "done"

  bool done() const { return status == "done"; }
  bool native() const;                   // llama.cpp's own cache
  double number(const char* key) const;  // a number of the result; NaN if there is none
  double number(const char* key, const char* inner) const;
};

struct ReportData {
  nlohmann::ordered_json index;
  std::vector<ReportCell> cells;

  std::vector<std::string> models() const;  // in the order of the index
  std::vector<std::string> tasks() const;
  std::vector<std::string> methods() const;
  std::vector<int64_t> contexts(const std::string& model) const;  // of kld, ascending
  std::vector<const ReportCell*> find(const std::string& model, const std::string& task, int64_t context = 0) const;
  const ReportCell* find(const std::string& model, const std::string& task, int64_t context,
                         const std::string& method) const;
};

ReportData load_report(const std::string& folder);

// The cells of a kld table that nothing else beats: no other has both fewer bits and a smaller KLD. By rising bits.
std::vector<const ReportCell*> pareto_front(const std::vector<const ReportCell*>& cells);

}  // namespace kvasir
