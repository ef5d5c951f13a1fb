// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
#include "eval/report_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "eval/presets.h"
#include "eval/report_figures.h"
#include "eval/report_numbers.h"
#include "eval/suite_clock.h"

namespace kvasir {
namespace {

using Look = ReportField::Look;

double percent(double share) {
  return 100 * share;
}

std::string windows_text(const ReportCell& cell) {
  if (cell.native()) return "none";
  const auto& method = cell.parameters.at("method");
  return fmt::format("{} + {}", method.value("sink", 0), method.value("recent", 0));
}

ReportTable kld_table(const ReportData& data, const std::string& model, int64_t context) {
  ReportTable table;
  table.caption = fmt::format("{}: {} tokens", model, context);
  table.columns = {"method",    "bits",        "16-bit windows",       "mean KLD",
                   "KLD, 99 %", "same top, %", "perplexity change, %", "Δp RMS, %",
                   "positions"};
  const std::vector<const ReportCell*> cells = data.find(model, "kld", context);
  const std::vector<const ReportCell*> front = pareto_front(cells);
  for (const ReportCell* cell : cells) {
    if (!cell->done()) {
      table.rows.push_back({{cell->method}, {status_text(*cell), Look::muted}});
      continue;
    }
    const bool best = std::ranges::find(front, cell) != front.end();
    const double ratio = cell->number("ln_ppl_ratio", "mean"), ratio_error = cell->number("ln_ppl_ratio", "se");
    table.rows.push_back({{cell->method + (best ? " ◆" : ""), best ? Look::strong : Look::plain},
                          {fixed(cell->number("bits_per_value"), 2)},
                          {windows_text(*cell)},
                          {with_error(cell->number("kld", "mean"), cell->number("kld", "se"))},
                          {scientific(cell->number("kld", "p99"))},
                          {with_error_fixed(percent(cell->number("top1")), percent(cell->number("top1_se")), 2)},
                          {with_error_fixed(percent(std::expm1(ratio)), percent(std::exp(ratio) * ratio_error), 2)},
                          {fixed(percent(cell->number("delta_p", "rms")), 2)},
                          {fixed(cell->number("tokens"), 0)}});
  }
  return table;
}

bool quantized_weights(const ReportCell& cell) {
  if (!cell.parameters.is_object() || !cell.parameters.contains("model")) return false;
  return cell.parameters["model"].value("description", "").find("F32") == std::string::npos;
}

// How many tokens lie in 16-bit windows anyway, the largest share among the methods of the table.
double window_share(const std::vector<const ReportCell*>& cells, int64_t context) {
  double most = 0;
  for (const ReportCell* cell : cells)
    if (cell->done() && !cell->native()) {
      const auto& method = cell->parameters.at("method");
      most = std::max(most, double(method.value("sink", 0) + method.value("recent", 0)) / double(context));
    }
  return most;
}

}  // namespace

ReportBlock paragraph(std::string text) {
  ReportBlock block;
  block.text = std::move(text);
  return block;
}
ReportBlock list(std::vector<std::string> items) {
  ReportBlock block;
  block.kind = ReportBlock::Kind::list;
  block.items = std::move(items);
  return block;
}
ReportBlock figures(std::vector<std::string> svg) {
  ReportBlock block;
  block.kind = ReportBlock::Kind::figures;
  block.items = std::move(svg);
  return block;
}
ReportBlock table_block(ReportTable table) {
  ReportBlock block;
  block.kind = ReportBlock::Kind::table;
  block.table = std::move(table);
  return block;
}

std::string status_text(const ReportCell& cell) {
  const std::string what = cell.status == "unavailable" ? "can't" : cell.status == "not_run" ? "not run" : "failed";
  return cell.reason.empty() ? what : what + ": " + cell.reason;
}

ReportSection overview_section(const ReportData& data) {
  ReportSection section{"What was run", {}};
  std::map<std::string, int> count;
  for (const ReportCell& cell : data.cells) ++count[cell.status];
  const std::string processor = data.index.value("processor", "");
  std::vector<std::string> facts = {
      fmt::format("Every method reads the same tokens of “{}”, each window from an empty cache, through the pages it "
                  "keeps; kld compares its logits with those of {}, float for float, over the second half of each "
                  "window.",
                  data.index.value("text", ""),
                  data.index.value("base", "") == "native" ? std::string("llama.cpp's own f16 cache")
                                                           : data.index.value("base", "")),
      fmt::format("{} cells measured, {} not run, {} that a method can't do, {} failed.", count["done"],
                  count["not_run"], count["unavailable"], count["failed"]),
      fmt::format("Seed {}, {} threads{}, {} in the last run{}{}.", data.index.value("seed", 0),
                  data.index.value("threads", 0), processor.empty() ? "" : " of " + processor,
                  in_minutes(data.index.value("seconds", 0.0)),
                  data.index.value("budget_seconds", 0.0) > 0
                      ? fmt::format(" of a budget of {}", in_minutes(data.index.value("budget_seconds", 0.0)))
                      : "",
                  data.index.value("runs", 1) > 1
                      ? fmt::format(", {} in all {} runs", in_minutes(data.index.value("seconds_total", 0.0)),
                                    data.index.value("runs", 1))
                      : "")};
  for (const std::string& model : data.models())
    for (const ReportCell& cell : data.cells)
      if (cell.model == model && cell.done()) {
        const std::string description = cell.parameters["model"].value("description", "");
        facts.push_back(fmt::format(
            "{}: {}, {}{}", model, description, byte_count(cell.parameters["model"].value("bytes", 0.0)),
            quantized_weights(cell)
                ? ". Its weights are quantized: rounding alone then costs a KLD of some 10⁻³, whatever the cache does"
                : ""));
        break;
      }
  section.blocks.push_back(list(std::move(facts)));
  return section;
}

ReportSection pareto_section(const ReportData& data) {
  ReportSection section{"Quality against bits", {}};
  std::vector<std::string> svg;
  for (const std::string& model : data.models())
    for (const int64_t context : data.contexts(model)) {
      const std::string figure =
          pareto_figure(fmt::format("{}, {} tokens", model, context), data.find(model, "kld", context));
      if (!figure.empty()) svg.push_back(figure);
    }
  if (svg.empty()) return section;
  section.blocks.push_back(
      paragraph("Down and left is better. The dashed line joins the methods that no other beats in both. Blue dots: "
                "Kvasir's codecs, all with the same 16-bit windows. Green rings: published settings with their own "
                "windows. Orange squares: llama.cpp's own caches. Bars: one standard error to each side."));
  section.blocks.push_back(figures(std::move(svg)));
  return section;
}

ReportSection quality_section(const ReportData& data, const std::string& model) {
  ReportSection section{model, {}};
  for (const int64_t context : data.contexts(model)) {
    section.blocks.push_back(table_block(kld_table(data, model, context)));
    const double share = window_share(data.find(model, "kld", context), context);
    if (share > 0.1)
      section.blocks.push_back(
          paragraph(fmt::format("At {} tokens about {:.0f} % of them lie in 16-bit windows; the longer table says "
                                "more about the codecs.",
                                context, percent(share))));
  }
  return section;
}

ReportSection needle_section(const ReportData& data) {
  ReportSection section{"Needles", {}};
  for (const std::string& model : data.models()) {
    std::vector<std::string> svg;
    ReportTable table;
    table.caption = model;
    table.columns = {"method", "bits", "found, %", "log-likelihood of the answer, a token", "questions"};
    for (const ReportCell* cell : data.find(model, "needle")) {
      if (!cell->done()) {
        table.rows.push_back({{cell->method}, {status_text(*cell), Look::muted}});
        continue;
      }
      svg.push_back(needle_figure(fmt::format("{}", cell->method), *cell));
      table.rows.push_back({{cell->method},
                            {fixed(cell->number("bits_per_value"), 2)},
                            {with_error_fixed(percent(cell->number("score")), percent(cell->number("score_se")), 0)},
                            {with_error_fixed(cell->number("answer_logprob"), cell->number("answer_logprob_se"), 3)},
                            {fixed(cell->number("n"), 0)}});
    }
    if (table.rows.empty()) continue;
    section.blocks.push_back(table_block(std::move(table)));
    if (!svg.empty()) section.blocks.push_back(figures(std::move(svg)));
  }
  if (!section.blocks.empty())
    section.blocks.insert(section.blocks.begin(),
                          paragraph("Sentences hidden in a long text and asked for after it. Squares: per cent found, "
                                    "by length (rows) and place in the text (columns, from its start)."));
  return section;
}

ReportSection tasks_section(const ReportData& data) {
  ReportSection section{"Other tasks", {}};
  for (const std::string& task : data.tasks()) {
    if (task == "kld" || task == "needle") continue;
    ReportTable table;
    table.caption = task == "generate" ? "generate: greedy text against the f16 cache" : task;
    table.columns = {"method"};
    for (const std::string& model : data.models()) table.columns.push_back(model);
    for (const std::string& method : data.methods()) {
      std::vector<ReportField> row = {{method}};
      bool any = false;
      for (const std::string& model : data.models()) {
        const ReportCell* cell = data.find(model, task, 0, method);
        any = any || cell != nullptr;
        if (cell == nullptr)
          row.push_back({"–"});
        else if (!cell->done())
          row.push_back({status_text(*cell).substr(0, status_text(*cell).find(':')), Look::muted});
        else if (task == "generate")
          row.push_back(
              {fmt::format("{} % same, first difference after {}", fixed(percent(cell->number("agreement")), 0),
                           fixed(cell->number("first_difference"), 0))});
        else
          row.push_back({fmt::format("{} (n {}), {}", fixed(percent(cell->number("score")), 0),
                                     fixed(cell->number("n"), 0), fixed(cell->number("answer_logprob"), 2))});
      }
      if (any) table.rows.push_back(std::move(row));
    }
    section.blocks.push_back(table_block(std::move(table)));
  }
  if (!section.blocks.empty())
    section.blocks.insert(
        section.blocks.begin(),
        paragraph("Scores in per cent with the number of questions, then the mean log-likelihood of "
                  "the right answer, a token (nearer to 0 is better; it moves before the score does)."));
  return section;
}

ReportSection cost_section(const ReportData& data) {
  ReportSection section{"Memory and speed", {}};
  for (const std::string& model : data.models()) {
    const std::vector<int64_t> contexts = data.contexts(model);
    if (contexts.empty()) continue;
    ReportTable table;
    table.caption = fmt::format("{}: {} tokens", model, contexts.back());
    table.columns = {"method",        "cache",           "times smaller than f16",
                     "bytes a token", "reads, tokens/s", "of the base's speed"};
    for (const ReportCell* cell : data.find(model, "kld", contexts.back())) {
      if (!cell->done()) continue;
      const double bytes = cell->number("bytes"), whole = cell->number("bytes_f16");
      table.rows.push_back({{cell->method},
                            {byte_count(bytes)},
                            {fixed(whole / bytes, 2)},
                            {fixed(bytes / double(contexts.back()), 0)},
                            {fixed(cell->number("prefill_tps"), 0)},
                            {fixed(cell->number("prefill_tps") / cell->number("prefill_tps_base"), 2)}});
    }
    if (!table.rows.empty()) section.blocks.push_back(table_block(std::move(table)));
  }
  if (!section.blocks.empty())
    section.blocks.insert(section.blocks.begin(),
                          paragraph("Bytes as allocated, windows and scales included. The speed is that of reading the "
                                    "kld windows, side by side with the others on the same threads: good for comparing "
                                    "rows, not a benchmark (`kvasir bench end-to-end` is one)."));
  return section;
}

ReportSection papers_section(const ReportData& data) {
  ReportSection section{"What the papers say, and what was measured here", {}};
  for (const std::string& method : data.methods()) {
    const Preset* preset = find_preset(method);
    if (preset == nullptr) continue;
    ReportTable table;
    table.caption = fmt::format("{} ({})", preset->name, preset->source);
    table.columns = {"", ""};
    table.left_columns = 2;
    table.rows.push_back({{"settings"}, {std::string(preset->settings)}});
    table.rows.push_back({{"differs here"}, {std::string(preset->differs)}});
    for (const std::string_view claim : preset->claims) table.rows.push_back({{"says"}, {std::string(claim)}});
    for (const ReportCell& cell : data.cells) {
      if (cell.method != method || cell.task != "kld") continue;
      const std::string where = fmt::format("{}, {} tokens", cell.model, cell.context);
      if (!cell.done()) {
        table.rows.push_back({{where}, {status_text(cell), Look::muted}});
        continue;
      }
      const double ratio = cell.number("ln_ppl_ratio", "mean");
      table.rows.push_back(
          {{where},
           {fmt::format("{} bits: KLD {}, perplexity {:+.2f} %, same top {} %", fixed(cell.number("bits_per_value"), 2),
                        with_error(cell.number("kld", "mean"), cell.number("kld", "se")), percent(std::expm1(ratio)),
                        fixed(percent(cell.number("top1")), 1)),
            Look::strong}});
    }
    section.blocks.push_back(table_block(std::move(table)));
  }
  if (!section.blocks.empty())
    section.blocks.insert(
        section.blocks.begin(),
        paragraph(
            "The papers' models are larger and their tasks are others; these rows don't confirm or refute their "
            "numbers. They show what the same settings cost on the models of this page, beside what is claimed."));
  return section;
}

ReportSection missing_section(const ReportData& data) {
  ReportSection section{"Not measured", {}};
  ReportTable table;
  table.columns = {"model", "tasks", "why", "methods"};
  table.left_columns = 4;
  // Rows that differ in their tasks alone become one, then those that differ in their methods.
  const auto merge = [](std::vector<std::vector<ReportField>>& rows, std::vector<ReportField> row, size_t joined) {
    const auto same = std::ranges::find_if(rows, [&](const std::vector<ReportField>& other) {
      for (size_t i = 0; i < row.size(); ++i)
        if (i != joined && other[i].text != row[i].text) return false;
      return true;
    });
    if (same == rows.end())
      rows.push_back(std::move(row));
    else
      (*same)[joined].text += ", " + row[joined].text;
  };
  std::vector<std::vector<ReportField>> by_method;
  for (const ReportCell& cell : data.cells) {
    if (cell.done()) continue;
    const std::string task = cell.context > 0 ? fmt::format("{} at {}", cell.task, cell.context) : cell.task;
    merge(by_method, {{cell.model}, {task}, {status_text(cell), Look::muted}, {cell.method}}, 1);
  }
  for (std::vector<ReportField>& row : by_method) merge(table.rows, std::move(row), 3);
  if (!table.rows.empty()) section.blocks.push_back(table_block(std::move(table)));
  return section;
}

ReportSection reading_section() {
  return {
      "How to read it",
      {list({"bits: of the whole cache as allocated, windows, scales and protections counted, at the length that "
             "was run, for one stored value of 16 bits.",
             "16-bit windows: first + last tokens kept in 16 bits; the same in every row but those of published "
             "settings, which bring their own. llama.cpp's caches have none.",
             "mean KLD: how far the next-token distribution is from that of the base, over the whole vocabulary, in "
             "nats, with the standard error of the mean. The f16 row is the floor of this set-up.",
             "KLD, 99 %: what one position in a hundred exceeds. Same top: positions with the same likeliest "
             "token. Δp RMS: change of the true token's probability.",
             "perplexity change: against the base over the same tokens; its error is that of paired terms.",
             "◆: no other method of the table has both fewer bits and a smaller KLD. Neighbours whose errors "
             "overlap aren't told apart by this data."})}};
}

}  // namespace kvasir
