#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/results/recall.md: long conversations kept in different ways and asked about. What --work holds already
# isn't run again, so it can be stopped and started.
#
#   bench/recall.py [--conversations FILE ...] [--work DIR] [--only-finished]
import argparse
import json
import pathlib
import subprocess

from turboquant import ROOT, number, rows

MODEL = "smollm2-f32"
WINDOWS = ["--sink", 16, "--recent", 64]
SIXTH = ["--budget-ratio", 0.1667]
# One dialogue each: 4,096 tokens, 8 topics, 16 facts, 5 of which change.
SYNTHETIC = ["-m", MODEL, "--synthetic", "-c", 4096, "--topics", 8, "--facts", 16, "--updates", 5, *WINDOWS]
CHATS = 2
METHODS = ["full", "epicache", "rag", "kvzip", "infinipot", "snapkv", "keydiff", "streaming"]
CODECS = ["f16", "turbo4", "turbo3", "spectral3", "oscar2"]
ABLATIONS = [("layer budgets", "--alpha", [0, 1, 2, 4]), ("episodes", "--episodes", [1, 2, 4, 8]),
             ("segments of a prompt", "--representatives", [1, 2, 4, 8]),
             ("encoder", "--encoder", ["words", "hidden"])]
# Recorded conversations: (model, context, budgets, questions of each).
RECORDED = [("smollm2-f32", 8000, [1024, 2048], 24), ("gemma3-270m-f32", 24000, [1024, 2048], 24)]


class Runs:
    def __init__(self, args):
        self.args = args

    # The result of `kvasir eval recall`, run if it isn't there.
    def recall(self, name, *arguments):
        path = self.args.work / f"{name}.json"
        if not path.exists() and not self.args.only_finished:
            path.parent.mkdir(parents=True, exist_ok=True)
            command = [self.args.kvasir, "eval", "recall", *map(str, arguments), "--json"]
            result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if result.returncode == 0:
                path.write_text(result.stdout)
        return json.loads(path.read_text()) if path.exists() else None


def size(count):
    return f"{count / 1e6:.1f} MB"


# `whole`: bytes of the whole conversation in 16 bits.
def method_row(name, found, method, whole):
    entry = found["methods"][method]
    updated = entry.get("updated")
    return [name, f"{entry['score']:.3f} ± {entry['score_se']:.3f}",
            f"{entry['answer_logprob']:.2f} ± {entry['answer_logprob_se']:.2f}",
            f"{updated['score']:.2f} / {updated['stale']:.2f}" if updated else "",
            f"{size(entry['bytes'])} ({100 * entry['bytes'] / whole:.0f} %)", size(entry["peak_bytes"]),
            f"{entry['tokens_read']:,}", f"{entry['reading_seconds']:.0f} s"]


HEAD = ["", "right answers", "right answer, nats a token", "changed facts: right / as before", "cache (of f16)",
        "most while reading", "tokens decoded to read", "time to read"]


def full_f16(runs):
    return runs.recall("full-f16", *SYNTHETIC, "--chats", CHATS, "--kv", "f16", "--method", "full")


def methods_section(runs):
    whole = full_f16(runs)
    if not whole:
        return ""
    held = whole["methods"]["full"]["bytes"]
    body = [method_row("`full`", whole, "full", held)]
    for method in METHODS[1:]:
        found = runs.recall(f"{method}-f16", *SYNTHETIC, "--chats", CHATS, "--kv", "f16", *SIXTH, "--method", method)
        if found:
            body.append(method_row(f"`{method}`", found, method, held))
    tokens = ", ".join(f"{t:,}" for t in whole["tokens"])
    return (f"## Dialogues made here\n\n{MODEL}, {CHATS} dialogues ({tokens} tokens) about 8 topics, 16 facts in each, 5 "
            "of which change later; 16 bits, a sixth of\nthe tokens kept per KV head and layer (`epicache`: in each of "
            "4 episodes; `rag`: of the text).\n\n" + rows(HEAD, body))


def codec_section(runs):
    whole = full_f16(runs)
    body = []
    for codec in CODECS:
        found = runs.recall(f"epicache-{codec}", *SYNTHETIC, "--chats", CHATS, "--kv", codec, *SIXTH, "--method",
                            "epicache")
        if whole and found:
            body.append(method_row(f"`{codec}`", found, "epicache", whole["methods"]["full"]["bytes"]))
    return "## Episodes in every codec\n\nAs above, `epicache`, 4 episodes together.\n\n" + rows(HEAD, body) if body else ""


def ablation_section(runs):
    whole, body = full_f16(runs), []
    for words, flag, values in ABLATIONS:
        for value in values:
            found = runs.recall(f"epicache-f16{flag}-{value}", *SYNTHETIC, "--chats", CHATS, "--kv", "f16", *SIXTH,
                                "--method", "epicache", flag, value)
            if whole and found:
                body.append(method_row(f"{words}: `{flag} {value}`", found, "epicache",
                                       whole["methods"]["full"]["bytes"]))
    return ("## What the parts of EpiCache do\n\nDefaults: `--alpha 2 --episodes 4 --representatives 8 --encoder words`."
            "\n\n" + rows(HEAD, body) if body else "")


def recorded_section(runs, files):
    page = []
    for model, context, budgets, questions in RECORDED:
        common = ["-m", model, "-f", *files, "-c", context, "--cut", "--questions", questions, *WINDOWS, "--kv", "f16"]
        whole = runs.recall(f"recorded-{model}-full", *common, "--method", "full")
        body = [method_row("`full`", whole, "full", whole["methods"]["full"]["bytes"])] if whole else []
        for budget in budgets:
            for method in METHODS[1:]:
                found = runs.recall(f"recorded-{model}-{budget}-{method}", *common, "--budget", budget, "--method",
                                    method)
                if whole and found:
                    body.append(method_row(f"`{method}`, {budget} tokens", found, method,
                                           whole["methods"]["full"]["bytes"]))
        if body:
            read = ", ".join(f"{t:,}" for t in whole["tokens"])
            page.append(f"### {model}\n\n{read} tokens of {len(whole['tokens'])} conversations, {questions} questions of "
                        "each; right answers are the F1 of words.\n\n" + rows(HEAD, body))
    return "## Recorded conversations (LoCoMo)\n\n" + "\n".join(page) if page else ""


def main():
    parser = argparse.ArgumentParser(description="docs/results/recall.md: conversations, kept and asked about")
    parser.add_argument("--conversations", nargs="*", default=[], help="files in LoCoMo's format")
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/recall")
    parser.add_argument("--only-finished", action="store_true", help="write the page from what --work holds")
    args = parser.parse_args()
    runs = Runs(args)
    page = ["# Long conversations, kept and asked about\n\nWritten by `bench/recall.py`, which runs `kvasir eval recall`. "
            "Each conversation is read once in each way and every question\nis asked from that state. The likelihood of "
            "the right answer tells more than the share of right ones: these are small models.\nTimes are those of a busy "
            "machine; tokens decoded say what a way costs.\n",
            methods_section(runs), codec_section(runs), ablation_section(runs),
            recorded_section(runs, args.conversations)]
    out = ROOT / "docs/results/recall.md"
    out.write_text("\n".join(part for part in page if part))
    print(out)


if __name__ == "__main__":
    main()
