// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// `kvasir demo`: one table that says what compressing the KV cache costs and saves.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/demo_method.h"
#include "cli/terminal.h"
#include "kvasir/error.h"

namespace kvasir::cli {
namespace {

constexpr std::array kMethods = {"f16", "auto", "turbo2"};  // the first is what the others are compared with
constexpr size_t kShownText = 150;                          // characters

struct Flags {
  DemoPlan plan;
  bool json = false;
};

// One line, cut at a word.
std::string start_of(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  if (text.size() <= kShownText) return text;
  const size_t space = text.rfind(' ', kShownText);
  return text.substr(0, space == std::string::npos ? kShownText : space) + " ...";
}

void print_table(const std::string& model, const std::vector<Json>& rows) {
  const Json& first = rows[0];
  fmt::print("\n{} after a document of {} tokens, {} threads\n\n", model, first["document_tokens"].get<int64_t>(),
             first["threads"].get<int>());
  fmt::print("{:<8} {:>9} {:>8} {:>11} {:>8} {:>11} {:>12} {:>12} {:>12}\n", "--kv", "KV cache", "smaller",
             "bits/value", "KLD", "same top-1", "prefill", "decode", "peak memory");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const Json& kv = row["kv"];
    fmt::print("{:<8} {:>9} {:>7.1f}x {:>11.2f} {:>8} {:>11} {:>6.0f} tok/s {:>6.1f} tok/s {:>12}\n", kMethods[i],
               format_bytes(kv["bytes"].get<size_t>()), kv["ratio"].get<double>(), kv["bits_per_value"].get<double>(),
               i == 0 ? "-" : fmt::format("{:.4f}", row["kld"]["mean"].get<double>()),
               i == 0 ? "-" : fmt::format("{:.1f} %", 100 * row["top1"].get<double>()),
               row["prefill_tps"].get<double>(), row["decode_tps"].get<double>(),
               format_bytes(row["peak_rss"].get<size_t>()));
  }
  fmt::print(
      "\nsmaller: than a plain 16-bit cache of these tokens. KLD: how far the predictions of the next token are from\n"
      "those of f16 (0: the same). same top-1: how often both find the same token the likeliest. auto is {} for keys\n"
      "and {} for values here, and what kvasir run fits to a model on its first use elsewhere.\n",
      rows[1]["kv"]["codec_k"].get<std::string>(), rows[1]["kv"]["codec_v"].get<std::string>());
}

void print_texts(const std::vector<Json>& rows) {
  const Json& fact = rows[0]["fact"];
  const std::string sentence = fact["sentence"].get<std::string>(), answer = fact["answer"].get<std::string>();
  fmt::print("\nThe document says once, {} tokens before its end: \"{}\"\n", fact["tokens_back"].get<int64_t>(),
             sentence);
  fmt::print("Asked to go on after \"{}\":\n", sentence.substr(0, sentence.find(answer) - 1));
  for (size_t i = 0; i < rows.size(); ++i)
    fmt::print("  {:<7}{}\n", kMethods[i], start_of(rows[i]["text"].get<std::string>()));
}

void run_demo(const Flags& flags) {
  if (flags.plan.scored < 2 || flags.plan.generate < 1 || flags.plan.tokens < 1 || flags.plan.threads < 0)
    throw Error(ErrorCode::invalid_argument, "--tokens and -n take 1 or more, --scored 2 or more, -t 0 (all) or more");
  const Stopwatch watch;
  LogitFile logits;
  std::vector<Json> rows;
  rows.reserve(kMethods.size());
  for (const std::string kv : kMethods)
    rows.push_back(in_child_process([&] { return run_demo_method(flags.plan, kv, rows.empty(), logits); }));
  note(fmt::format("{:.0f} s in all", watch.seconds()));
  if (!flags.json) {
    print_table(flags.plan.model, rows);
    return print_texts(rows);
  }
  Json methods;
  for (size_t i = 0; i < rows.size(); ++i) methods[kMethods[i]] = rows[i];
  print_json({{"model", flags.plan.model},
              {"document_tokens", rows[0]["document_tokens"]},
              {"scored", flags.plan.scored},
              {"threads", rows[0]["threads"]},
              {"methods", methods},
              {"seconds", watch.seconds()}});
}

}  // namespace

void add_demo(CLI::App& program) {
  CLI::App* command = program.add_subcommand("demo", "one table: what compressing the KV cache costs and saves");
  const auto flags = std::make_shared<Flags>();
  command->add_option("-m,--model", flags->plan.model, "a GGUF file or a small model's name")->capture_default_str();
  command->add_option("--tokens", flags->plan.tokens, "least tokens of the document")->capture_default_str();
  command->add_option("--scored", flags->plan.scored, "predictions at its end to compare")->capture_default_str();
  command->add_option("-n,--predict", flags->plan.generate, "tokens to generate")->capture_default_str();
  command->add_option("-t,--threads", flags->plan.threads, "threads; 0: all")->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags] { run_demo(*flags); });
}

}  // namespace kvasir::cli
