#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes the README's main table from the suite's results in docs/results/suite, between two marks. `--check` changes
# nothing and fails if the README says something else.
#
#   bench/readme_table.py [--check]
import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITE = ROOT / "docs/results/suite"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench/readme_table.py -->\n", "<!-- end of the table -->\n"
CONTEXT = 2048
METHODS = {"q8": "`q8`", "llama-q8_0": "llama.cpp `q8_0`", "llama-q5_1": "llama.cpp `q5_1`",
           "spectral4": "`spectral4`", "turbo4.5/turbo4": "`turbo4.5,turbo4`", "turbo4": "`turbo4`", "kivi4": "`kivi4`",
           "llama-q4_0": "llama.cpp `q4_0`", "spectral3": "`spectral3` (`auto`)", "turbo3": "`turbo3`",
           "spectral2": "`spectral2`", "turbo2": "`turbo2`", "kivi2": "`kivi2`", "oscar2": "`oscar2`"}
MODELS = {"smollm2-f32": "SmolLM2 135M", "gemma3-270m-f32": "Gemma 3 270M",
          "qwen2.5-coder-0.5b-f32": "Qwen2.5-Coder 0.5B", "qwen2.5-coder-1.5b-f32": "Qwen2.5-Coder 1.5B"}


def cells():
    index = json.loads((SUITE / "suite.json").read_text())
    for entry in index["cells"]:
        if entry["status"] == "done" and entry["task"] == "kld" and entry["context"] == CONTEXT:
            result = json.loads((SUITE / entry["file"]).read_text())["result"]
            yield (entry["model"], entry["method"]), result


def number(x):
    return f"{x:.1e}".replace("e-0", "e-") if x < 1e-3 else f"{x:.2g}".lstrip("0") if x < 1 else f"{x:.2g}"


def table():
    found = dict(cells())
    lines = ["| cache | bits a value | " + " | ".join(MODELS.values()) + " |", "|---|---|" + "---|" * len(MODELS)]
    for method, label in METHODS.items():
        row = [found.get((model, method)) for model in MODELS]
        if not any(row):
            continue
        bits = sorted({f"{cell['bits_per_value']:.1f}" for cell in row if cell}, key=float)
        span = bits[0] if len(bits) == 1 else f"{bits[0]} to {bits[-1]}"
        values = [number(cell["kld"]["mean"]) if cell else "" for cell in row]
        lines.append(f"| {label} | {span} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = README.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{README.name} lacks the marks {BEGIN.strip()} and {END.strip()}")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    written = head + BEGIN + "\n" + table() + "\n" + END + tail
    if written == text:
        return
    if args.check:
        sys.exit("README.md's table isn't that of docs/results/suite: run bench/readme_table.py")
    README.write_text(written)
    print("README.md")


if __name__ == "__main__":
    main()
