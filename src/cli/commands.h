// Copyright The Kvasir authors
// SPDX-License-Identifier: Apache-2.0
//
// The commands of the program, one file each. Every function adds one subcommand with its flags to `program`; the work
// happens in the subcommand's callback. A command reports failure by throwing kvasir::Error, which main.cpp turns into
// one line on stderr and an exit status (2 for invalid_argument, else 1). With --json a command prints exactly one JSON
// object on stdout, and only when it succeeded; everything else goes to stderr.
#pragma once

namespace CLI {
class App;
}

namespace kvasir::cli {

void add_run(CLI::App& program);        // run.cpp: generate text
void add_chat(CLI::App& program);       // chat.cpp: talk in the terminal
void add_session(CLI::App& program);    // session.cpp: what run and chat --session keep
void add_plan(CLI::App& program);       // plan.cpp: what the cache will take
void add_eval(CLI::App& program);       // eval.cpp: `eval kld` and what the next line adds to it
void add_eval_suite(CLI::App& eval);    // suite.cpp: `eval suite`
void add_report(CLI::App& program);     // report.cpp: a page of a suite's results
void add_calibrate(CLI::App& program);  // calibrate.cpp: moments of a model, for fitted codecs
void add_tune(CLI::App& program);       // tune.cpp: codecs by layer and side for a target
void add_distort(CLI::App& program);    // distort.cpp: a codec's error against theory
void add_bench(CLI::App& program);      // bench.cpp: `bench attention`, `bench end-to-end`
void add_vector(CLI::App& program);     // vector.cpp: the vector index, `vector build` and what follows
void add_demo(CLI::App& program);       // demo.cpp: one table for a newcomer

}  // namespace kvasir::cli
