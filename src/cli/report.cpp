// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// kvasir report: what a suite measured, as one HTML page and as Markdown.
#include "eval/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "eval/suite_store.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

struct ReportFlags {
  std::string folder, output;
  bool json = false;
};

void report(const ReportFlags& flags) {
  if (flags.folder.empty())
    throw Error(ErrorCode::invalid_argument, "no folder: name the one that `kvasir eval suite -o DIR` wrote");
  const ReportDocument document = build_report(flags.folder);
  const std::filesystem::path output =
      flags.output.empty() ? std::filesystem::path(flags.folder) / "report.html" : std::filesystem::path(flags.output);
  Json written = Json::array();
  const auto write = [&](const std::filesystem::path& path, const std::string& content) {
    write_whole_file(path, content);
    note(fmt::format("wrote {} ({})", path.string(), format_bytes(content.size())));
    written.push_back(path.string());
  };
  if (output.extension() == ".md") {
    write(output, report_markdown(document));
  } else {
    write(output, report_html(document));
    std::filesystem::path beside = output;
    write(beside.replace_extension(".md"), report_markdown(document));
  }
  if (flags.json) print_json({{"files", written}, {"sections", document.sections.size()}});
}

}  // namespace

void add_report(CLI::App& program) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = program.add_subcommand("report", "one page (HTML and Markdown) of what `eval suite` measured");
  command->add_option("folder", flags->folder, "the folder of `eval suite -o`");
  command->add_option("-o,--output", flags->output,
                      "x.html (x.md is written beside it) or x.md alone; DIR/report.html");
  command->add_flag("--json", flags->json, "print the names of the files");
  command->callback([flags] { report(*flags); });
}

}  // namespace kvasir::cli
