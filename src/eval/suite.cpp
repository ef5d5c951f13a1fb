// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "eval/suite_clock.h"
#include "eval/suite_kld.h"
#include "eval/suite_store.h"
#include "eval/suite_tasks.h"
#include "eval/text_chunks.h"
#include "host/fitted_codecs.h"
#include "kvasir/error.h"

namespace kvasir {
namespace {

using Json = SuiteJson;

// One field of the matrix and what became of it.
struct Cell {
  std::string id, model, task;
  int64_t context = 0;  // kld only
  const SuiteMethod* method = nullptr;
  Json parameters;             // without what only the loaded model knows
  int windows = 0;             // kld: finished ones
  std::string status, reason;  // status: done, not_run, unavailable, failed
};

std::string model_label(const std::string& name) {
  const size_t slash = name.find_last_of('/');
  std::string label = slash == std::string::npos ? name : name.substr(slash + 1);
  if (label.ends_with(".gguf")) label.resize(label.size() - 5);
  return label;
}

Json spec_json(const SourceSpec& spec) {
  if (spec.native) return {{"native", true}, {"k", spec.type_k}, {"v", spec.type_v}};
  Json overrides = Json::array();
  for (const LayerOverride& rule : spec.cache.overrides)
    overrides.push_back({{"first", rule.first}, {"last", rule.last}, {"k", rule.key}, {"v", rule.value}});
  return {{"k", spec.cache.key},     {"v", spec.cache.value},       {"overrides", overrides},
          {"sink", spec.cache.sink}, {"recent", spec.cache.recent}, {"protect", spec.cache.protect}};
}

class Suite {
 public:
  explicit Suite(const SuiteOptions& options)
      : options_(checked(options)), store_(options.folder), clock_(options.budget_seconds) {
    base_ = SourceSpec::parse(options.base, CacheOptions());
    text_hash_ = content_hash(options.text);
    const Json before = store_.index();
    if (before.is_object()) {
      earlier_seconds_ = before.value("seconds_total", before.value("seconds", 0.0));
      earlier_runs_ = before.value("runs", 1);
      for (const Json& entry : before.value("cells", Json::array())) earlier_[entry.value("id", "")] = entry;
    }
    for (const std::string& model : options.models)
      for (const std::string& task : options.tasks) plan(model, task);
    for (const Cell& cell : cells_)
      if (holds_from_before(cell)) standing_.insert(cell.id);
  }

  Json run() {
    write_index();
    // What tells most comes first, and every model gets it before one of them gets more. The rest goes model by model,
    // in the order of -m: a small model is complete before a large one eats the budget.
    if (has_task("kld"))
      for (const std::string& model : options_.models) first_window(model, options_.contexts.front());
    for (const std::string& model : options_.models) {
      if (has_task("kld"))
        for (size_t i = 1; i < options_.contexts.size(); ++i) first_window(model, options_.contexts[i]);
      for (const std::string& task : options_.tasks)
        if (task != "kld")
          for (Cell* cell : cells_of(model, task)) other_task(*cell);
    }
    if (has_task("kld"))
      for (size_t i = 0; i < options_.models.size(); ++i) {
        // What is left is shared by the models that are left, or the first would take it all.
        const double share = clock_.left() / double(options_.models.size() - i);
        more_windows(options_.models[i], share);
      }
    return write_index();
  }

 private:
  // Before the folder is made.
  static const SuiteOptions& checked(const SuiteOptions& options) {
    const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
    if (options.models.empty()) refuse("no model: -m takes one or more, as in -m smollm2-f32,gemma3-270m-f32");
    if (options.contexts.empty() || std::ranges::any_of(options.contexts, [](int64_t c) { return c < 4; }))
      refuse("--contexts takes lengths of 4 tokens or more, as in 2048,4096");
    if (options.windows < 1 || options.samples < 1) refuse("--windows and --samples take 1 or more");
    const std::vector<std::string> known = suite_task_names();
    for (const std::string& task : options.tasks)
      if (std::ranges::find(known, task) == known.end())
        refuse(fmt::format("no task '{}'; --tasks takes {}", task, fmt::join(known, ", ")));
    std::set<std::string> labels;
    for (const std::string& model : options.models)
      if (!labels.insert(model_label(model)).second) refuse(fmt::format("-m names '{}' twice", model_label(model)));
    return options;
  }

  bool has_task(const std::string& name) const {
    return std::ranges::find(options_.tasks, name) != options_.tasks.end();
  }

  void plan(const std::string& model, const std::string& task) {
    const bool kld = task == "kld";
    for (const int64_t context : kld ? options_.contexts : std::vector<int64_t>{0})
      for (const SuiteMethod& method : options_.methods) {
        Cell cell;
        cell.model = model;
        cell.task = task;
        cell.context = context;
        cell.method = &method;
        cell.id = file_name_of(
            fmt::format("{}_{}{}_{}", model_label(model), task, kld ? fmt::format("-{}", context) : "", method.name));
        cell.parameters = {{"program", options_.program}, {"text", text_hash_}, {"method", spec_json(method.spec)}};
        if (kld)
          cell.parameters.update({{"context", context}, {"base", options_.base}});
        else
          cell.parameters.update(task_parameters(task, options_));
        if (!method.unavailable.empty()) cell.status = "unavailable", cell.reason = method.unavailable;
        cells_.push_back(std::move(cell));
      }
  }

  std::vector<Cell*> cells_of(const std::string& model, const std::string& task, int64_t context = 0) {
    std::vector<Cell*> found;
    for (Cell& cell : cells_)
      if (cell.model == model && cell.task == task && cell.context == context) found.push_back(&cell);
    return found;
  }

  // Loads the model unless it is the current one; one at a time lies in memory. False if it can't be loaded.
  bool open(const std::string& name) {
    if (current_ == name) return model_ != nullptr;
    model_.reset();
    current_ = name;
    try {
      model_ = options_.load(name);
    } catch (const Error& error) {
      for (Cell& cell : cells_)
        if (cell.model == name && cell.status.empty()) cell.status = "failed", cell.reason = error.what();
      return false;
    }
    std::error_code ignored;
    model_bytes_[name] = double(std::filesystem::file_size(model_->path(), ignored));
    const Json identity = {
        {"name", model_label(name)}, {"description", model_->description()}, {"bytes", model_bytes_[name]}};
    for (Cell& cell : cells_)
      if (cell.model == name) {
        cell.parameters["model"] = identity;
        if (const std::string fitted = fitted_by(cell.method->spec); !fitted.empty())
          cell.parameters["fitted_by"] = fitted;
      }
    return true;
  }

  // What the method's fitted codecs come from: another calibration makes it another measurement. Empty if it has none,
  // or can't be made, which running it will report.
  std::string fitted_by(const SourceSpec& spec) const {
    if (spec.native) return {};
    try {
      const CacheOptions options = with_fitted_codecs(spec.cache, *model_);
      return options.fitted ? options.fitted->description() : "";
    } catch (const Error&) {
      return {};
    }
  }

  void note(const std::string& line) const {
    if (options_.note) options_.note(line);
  }
  std::string budget_text() const {
    return options_.budget_seconds > 0
               ? fmt::format("{} of {}", in_minutes(clock_.spent()), in_minutes(options_.budget_seconds))
               : in_minutes(clock_.spent());
  }
  static std::string doesnt_fit(double needs, double left) {
    return fmt::format("needs about {}, {} of the budget were left", in_minutes(needs),
                       in_minutes(std::max(0.0, left)));
  }

  // The first window of kld at one length: as many methods as fit, in the order of --kv.
  void first_window(const std::string& model, int64_t context) {
    if (!open(model)) return;
    std::vector<Cell*> open_cells;
    for (Cell* cell : cells_of(model, "kld", context)) {
      if (!cell->status.empty()) continue;
      recover(*cell);
      if (cell->windows == 0) open_cells.push_back(cell);
    }
    if (open_cells.empty()) return;
    const double one = clock_.reading(model, model_bytes_[model], double(context)), left = clock_.left();
    const int wanted = int(open_cells.size());
    // One more reads the base. Nothing is known yet about the first model.
    const int fit = left <= 0 ? 0 : one <= 0 ? wanted : int(std::clamp(left / one - 1, 0.0, double(wanted)));
    for (int i = fit; i < wanted; ++i) open_cells[size_t(i)]->reason = doesnt_fit((wanted + 1) * one, left);
    open_cells.resize(size_t(fit));
    if (fit > 0) window(model, context, 0, open_cells);
  }

  // Further windows, the same for every method that has the ones before.
  void more_windows(const std::string& model, double share) {
    const double until = clock_.spent() + share;
    for (int index = 1; index < options_.windows; ++index)
      for (const int64_t context : options_.contexts) {
        std::vector<Cell*> open_cells;
        for (Cell* cell : cells_of(model, "kld", context))
          if (cell->windows == index && cell->status == "done") open_cells.push_back(cell);
        if (open_cells.empty() || !open(model)) continue;
        const double needs =
            clock_.reading(model, model_bytes_[model], double(context)) * double(open_cells.size() + 1);
        if (clock_.spent() + needs <= until) window(model, context, index, open_cells);
      }
  }

  const std::vector<std::vector<int32_t>>& windows_of(const std::string& model, int64_t context) {
    const auto key = std::make_pair(model, context);
    const auto found = texts_.find(key);
    if (found != texts_.end()) return found->second;
    return texts_[key] = cut_chunks(*model_, options_.text, context, options_.windows);
  }

  void window(const std::string& model, int64_t context, int index, const std::vector<Cell*>& cells) {
    try {
      const auto& windows = windows_of(model, context);
      if (index >= int(windows.size())) return;  // the text is read
      note(fmt::format("{}: kld at {} tokens, window {}, {} methods ({})", model_label(model), context, index + 1,
                       cells.size(), budget_text()));
      KldWindow job;
      job.model = model_;
      job.base = base_;
      for (const Cell* cell : cells) job.methods.push_back(cell->method);
      job.tokens = windows[size_t(index)];
      job.micro_batch = options_.micro_batch;
      job.threads = options_.threads;
      if (options_.progress) job.progress = [&](int64_t done) { options_.progress("kld", done, context); };
      const double start = clock_.spent();
      const std::vector<KldWindowResult> results = run_kld_window(job);
      clock_.learn(model, model_bytes_[model], double(context) * double(cells.size() + 1), clock_.spent() - start);
      for (size_t i = 0; i < cells.size(); ++i) take(*cells[i], results[i], index);
    } catch (const Error& error) {
      for (Cell* cell : cells)
        if (cell->windows == 0) cell->status = "failed", cell->reason = error.what();
    }
    write_index();
  }

  void take(Cell& cell, const KldWindowResult& result, int index) {
    if (!result.failure.empty()) {
      cell.status = result.unsupported ? "unavailable" : "failed";
      cell.reason = result.failure;
      return;
    }
    Json window = {{"parameters", cell.parameters}};
    window.update(result.window);
    store_.write_window(cell.id, index, window);
    recover(cell);
    note(fmt::format("  {}: KLD {:.2e} +- {:.0e}, {:.2f} bits", cell.method->name,
                     summary_[cell.id]["kld"]["mean"].get<double>(), summary_[cell.id]["kld"]["se"].get<double>(),
                     summary_[cell.id]["bits_per_value"].get<double>()));
  }

  // Reads the windows that are there and makes the cell's result of them.
  void recover(Cell& cell) {
    std::vector<Json> windows;
    while (int(windows.size()) < options_.windows) {
      std::optional<Json> window = store_.window(cell.id, int(windows.size()), cell.parameters);
      if (!window) break;
      windows.push_back(std::move(*window));
    }
    cell.windows = int(windows.size());
    if (windows.empty()) return;
    summary_[cell.id] = kld_result(windows);
    finish(cell, summary_[cell.id]);
  }

  void finish(Cell& cell, const Json& result) {
    cell.status = "done";
    cell.reason.clear();
    Json file = head(cell);
    file.update({{"parameters", cell.parameters},
                 {"text", options_.text_name},
                 {"threads", options_.threads},
                 {"result", result}});
    store_.write_cell(cell.id, file);
  }

  static Json head(const Cell& cell) {
    Json head = {{"id", cell.id},
                 {"model", model_label(cell.model)},
                 {"task", cell.task},
                 {"method", cell.method->name},
                 {"preset", cell.method->preset != nullptr}};
    if (cell.context > 0) head["context"] = cell.context;
    return head;
  }

  void other_task(Cell& cell) {
    if (!cell.status.empty() || !open(cell.model)) return;
    if (store_.cell(cell.id, cell.parameters)) {
      cell.status = "done";
      return;
    }
    double needs = clock_.task(cell.model, cell.task);
    if (needs <= 0) needs = clock_.reading(cell.model, model_bytes_[cell.model], task_reading(cell.task, options_));
    if (clock_.left() < needs || clock_.left() <= 0) {
      cell.reason = doesnt_fit(needs, clock_.left());
      return;
    }
    note(fmt::format("{}: {} with {} ({})", model_label(cell.model), cell.task, cell.method->name, budget_text()));
    const double start = clock_.spent();
    try {
      EvalSetup setup;
      setup.model = model_;
      setup.kv = cell.method->spec;
      setup.context = *std::ranges::max_element(options_.contexts);
      setup.micro_batch = options_.micro_batch;
      setup.threads = options_.threads;
      if (options_.progress)
        setup.progress = [&](int64_t done, int64_t total) { options_.progress(cell.task, done, total); };
      Json result = run_suite_task(cell.task, options_, setup);
      const double seconds = clock_.spent() - start;
      result["seconds"] = seconds;
      clock_.learn_task(cell.model, cell.task, seconds);
      finish(cell, result);
    } catch (const Error& error) {
      cell.status = error.code() == ErrorCode::unsupported ? "unavailable" : "failed";
      cell.reason = error.what();
    }
    write_index();
  }

  // Measured by an earlier run under the same parameters, as far as they are known without the model:
  // should this run be stopped before it looks at the cell, the list must not forget it.
  bool holds_from_before(const Cell& cell) const {
    const auto earlier = earlier_.find(cell.id);
    if (earlier == earlier_.end() || earlier->second.value("status", "") != "done") return false;
    Json file = store_.cell_file(cell.id);
    if (!file.is_object() || !file.contains("parameters")) return false;
    Json parameters = file["parameters"];
    parameters.erase("model");
    return parameters == cell.parameters;
  }

  // Cells of earlier runs into the same folder stay in the list.
  Json write_index() {
    std::map<std::string, bool> ours;
    Json list = Json::array();
    for (const Cell& cell : cells_) {
      ours[cell.id] = true;
      if (cell.status.empty() && cell.reason.empty() && standing_.count(cell.id) > 0) {
        list.push_back(earlier_.at(cell.id));
        continue;
      }
      Json entry = head(cell);
      entry["status"] = cell.status.empty() ? "not_run" : cell.status;
      const bool done = entry["status"] == "done";
      if (cell.status.empty() && cell.reason.empty()) entry["reason"] = "not reached";
      if (!done && !cell.reason.empty()) entry["reason"] = cell.reason;
      if (done) entry["file"] = "cells/" + cell.id + ".json";
      list.push_back(std::move(entry));
    }
    for (const auto& [id, entry] : earlier_)
      if (!ours.count(id)) list.push_back(entry);
    Json index = {{"program", options_.program}, {"base", options_.base},
                  {"text", options_.text_name},  {"seed", options_.seed},
                  {"threads", options_.threads}, {"processor", options_.processor},
                  {"seconds", clock_.spent()},   {"seconds_total", earlier_seconds_ + clock_.spent()},
                  {"runs", earlier_runs_ + 1},   {"budget_seconds", options_.budget_seconds},
                  {"cells", std::move(list)}};
    store_.write_index(index);
    return index;
  }

  const SuiteOptions& options_;
  SuiteStore store_;
  SuiteClock clock_;
  SourceSpec base_;
  std::string text_hash_;
  double earlier_seconds_ = 0;  // of earlier runs into the same folder
  int earlier_runs_ = 0;
  std::map<std::string, Json> earlier_;  // cells of its index, by id
  std::set<std::string> standing_;       // those of ours among them that still hold
  std::vector<Cell> cells_;
  std::map<std::string, Json> summary_;  // of kld cells, by id
  std::map<std::string, double> model_bytes_;
  std::map<std::pair<std::string, int64_t>, std::vector<std::vector<int32_t>>> texts_;
  std::string current_;  // name of the loaded model
  std::shared_ptr<Model> model_;
};

}  // namespace

SuiteJson run_suite(const SuiteOptions& options) {
  return Suite(options).run();
}

}  // namespace kvasir
