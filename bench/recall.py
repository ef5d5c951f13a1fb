#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/results/recall.md: long conversations kept in different ways and asked about. What --work holds already
# isn't run again, so it can be stopped and started. The page's numbers are kept beside it, in recall.json: what --work
# lacks is taken from there with --only-finished.
#
#   bench/recall.py [--conversations FILE ...] [--work DIR] [--only-finished]
import argparse
import json
import pathlib
import statistics

from turboquant import ROOT, KeptBench, rows

WINDOWS = ["--sink", 16, "--recent", 64]
SIXTH = ["--budget-ratio", 0.1667]
DIALOGUE = ["--synthetic", "-c", 3072, "--topics", 6, "--facts", 18, "--updates", 6, *WINDOWS]
CHATS = {"gemma3-270m-f32": 3, "smollm2-f32": 2, "qwen2.5-coder-0.5b-f32": 1}
METHODS = ["full", "epicache", "rag", "kvzip", "infinipot", "snapkv", "keydiff", "streaming"]
CODEC_MODEL, CODECS = "smollm2-f32", ["f16", "turbo4", "turbo3", "spectral3", "oscar2"]
PARTS_MODEL = "gemma3-270m-f32"
PARTS = [("layer budgets", ["--alpha", 2]), ("episodes", ["--episodes", 1]), ("", ["--episodes", 2]),
         ("", ["--episodes", 6]), ("", ["--episodes", 8]), ("segments of a prompt", ["--representatives", 1]),
         ("", ["--representatives", 3]), ("who answers", ["--match-centroids"]), ("encoder", ["--encoder", "hidden"])]
# Recorded conversations: (model, context).
RECORDED = [("gemma3-270m-f32", 8000), ("smollm2-f32", 8000), ("gemma3-270m-f32", 24000)]
RECORDED_CHATS, BUDGETS, QUESTIONS, ANSWER = 3, [1024, 2048, 4096], 24, 16  # conversations at most; tokens
NUMBERS = ["score", "score_se", "answer_logprob", "answer_logprob_se", "routed", "bytes", "bytes_f16", "peak_bytes",
           "tokens_read", "reading_seconds"]


class Runs(KeptBench):
    # The result of `kvasir eval recall`, run if it isn't there; without arguments what is there.
    def recall(self, name, *arguments):
        path = self.args.work / f"{name}.json"
        if not path.exists() and arguments and not self.args.only_finished:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.kvasir("eval", "recall", *arguments)))
        if path.exists():
            found = json.loads(path.read_text())
            self.kept[name] = {"tokens": found["tokens"], "methods": {}}
            for method, entry in found["methods"].items():
                numbers = {key: entry[key] for key in NUMBERS if key in entry}
                for each in ("scores", "answer_logprobs"):  # of every question
                    if name.startswith("recorded") and each in entry:
                        numbers[each] = [round(x, 4) for x in entry[each]]
                if entry.get("updated"):
                    numbers["updated"] = {key: entry["updated"][key] for key in ("score", "stale")}
                self.kept[name]["methods"][method] = numbers
        return self.kept.get(name)


def size(count):
    return f"{count / 1e6:.1f} MB"


# `whole`: bytes of the whole conversation in 16 bits.
def method_row(name, found, method, whole):
    entry = found["methods"][method]
    updated = entry.get("updated")
    return [name, f"{entry['score']:.3f} ± {entry['score_se']:.3f}",
            f"{entry['answer_logprob']:.2f} ± {entry['answer_logprob_se']:.2f}",
            f"{updated['score']:.2f} / {updated['stale']:.2f}" if updated else "",
            f"{entry['routed']:.2f}" if "routed" in entry else "",
            f"{size(entry['bytes'])} ({100 * entry['bytes'] / whole:.0f} %)", size(entry["peak_bytes"]),
            f"{entry['tokens_read']:,}", f"{entry['reading_seconds']:.0f} s"]


HEAD = ["", "right answers", "right answer, nats a token", "changed facts: right / as before", "routed", "cache (of f16)",
        "most while reading", "tokens decoded to read", "time to read"]


def dialogues(runs, model, name, *arguments):
    return runs.recall(f"{model}-{name}", "-m", model, *DIALOGUE, "--chats", CHATS[model], *arguments)


def whole(runs, model):
    return dialogues(runs, model, "full-f16", "--kv", "f16", "--method", "full")


def episodic(runs, model, codec, *more):
    name = "epicache-" + codec + "".join(str(word).replace("--", "-") for word in more)
    return dialogues(runs, model, name, "--kv", codec, *SIXTH, "--method", "epicache", *more)


def methods_section(runs):
    page = []
    for model, chats in CHATS.items():
        base = whole(runs, model)
        if not base:
            continue
        held = base["methods"]["full"]["bytes_f16"]
        body = [method_row("`full`", base, "full", held)]
        for method in METHODS[1:]:
            found = dialogues(runs, model, f"{method}-f16", "--kv", "f16", *SIXTH, "--method", method)
            if found:
                body.append(method_row(f"`{method}`", found, method, held))
        tokens = ", ".join(f"{t:,}" for t in base["tokens"])
        page.append(f"### {model}\n\n{chats} dialogues of {tokens} tokens.\n\n" + rows(HEAD, body))
    return ("## Dialogues made here\n\nTwo people talk about 6 topics; 18 facts in a dialogue, 6 of which change later. 16 "
            "bits, and a sixth of the tokens for each\nKV head and layer (`epicache`: in each of 4 episodes; `rag`: of the "
            "text). Gemma selects in 3 of its 18 layers, the others have\nsliding windows of 512 tokens, which every episode "
            "holds.\n\n" + "\n".join(page)) if page else ""


def codec_section(runs):
    base, body = whole(runs, CODEC_MODEL), []
    for codec in CODECS:
        found = episodic(runs, CODEC_MODEL, codec)
        if base and found:
            body.append(method_row(f"`{codec}`", found, "epicache", base["methods"]["full"]["bytes_f16"]))
    return (f"## Episodes in other codecs\n\n{CODEC_MODEL}, `epicache`; the cache column is all 4 episodes together.\n\n" +
            rows(HEAD, body) if body else "")


def parts_section(runs):
    base, body = whole(runs, PARTS_MODEL), []
    usual = episodic(runs, PARTS_MODEL, "f16")
    if not base or not usual:
        return ""
    held = base["methods"]["full"]["bytes_f16"]
    body.append(method_row("as above", usual, "epicache", held))
    for words, flags in PARTS:
        found = episodic(runs, PARTS_MODEL, "f16", *flags)
        if found:
            text = " ".join(map(str, flags))
            body.append(method_row(f"{words}: `{text}`" if words else f"`{text}`", found, "epicache", held))
    return f"## What the parts of EpiCache do\n\n{PARTS_MODEL}.\n\n" + rows(HEAD, body)


# By how much `ours` is likelier than `theirs`, question by question: mean and standard error.
def lead(ours, theirs):
    differences = [a - b for a, b in zip(ours["answer_logprobs"], theirs["answer_logprobs"], strict=True)]
    return f"{statistics.mean(differences):+.2f} ± {statistics.stdev(differences) / len(differences) ** .5:.2f}"


def recorded_section(runs, files):
    page = []
    for model, context in RECORDED:
        def found(chat, method, budget):
            name = f"recorded-{model}-{context}-" + (f"{budget}-" if budget else "") + f"{method}-chat{chat}"
            more = []
            if chat <= len(files):
                more = ["-m", model, "-f", files[chat - 1], "-c", context, "--cut", "--questions", QUESTIONS, "-n", ANSWER,
                        *WINDOWS, "--kv", "f16", "--method", method, *(["--budget", budget] if budget else [])]
            run = runs.recall(name, *more)
            return dict(run["methods"][method], tokens=run["tokens"][0]) if run else None

        costs = []
        for chat in range(1, RECORDED_CHATS + 1):
            full = found(chat, "full", 0)
            ours = {budget: found(chat, "epicache", budget) for budget in BUDGETS}
            if not full or not any(ours.values()):
                continue
            cell = "{answer_logprob:.2f}; {score:.3f}".format
            body = [["`full`", *[cell(**full)] * len(BUDGETS)],
                    ["`epicache`", *[cell(**e) if e else "" for e in ours.values()]]]
            for method in METHODS[2:]:
                others = {budget: found(chat, method, budget) for budget in BUDGETS}
                if any(others[b] and ours[b] for b in BUDGETS):
                    body.append([f"`{method}`"] + [f"{cell(**others[b])}; {lead(ours[b], others[b])}"
                                                   if others[b] and ours[b] else "" for b in BUDGETS])
            page.append(f"### {model}, the first {full['tokens']:,} tokens of conversation {chat}\n\n" +
                        rows(["", *[f"{budget:,} tokens" for budget in BUDGETS]], body))
            if not costs:
                for method in METHODS[1:]:
                    each = [found(chat, method, budget) for budget in BUDGETS]
                    costs.append([f"`{method}`"] + [f"{size(e['bytes'])} ({100 * e['bytes'] / full['bytes_f16']:.0f} %); "
                                                    f"{size(e['peak_bytes'])}; {e['tokens_read']:,}" if e else ""
                                                    for e in each])
        if costs:
            page.append(f"What they cost, {model}: the cache (of f16 and the whole text), most while reading, tokens "
                        "decoded to read.\n\n" + rows(["", *[f"{budget:,} tokens" for budget in BUDGETS]], costs))
    return (f"## Recorded conversations (LoCoMo)\n\n{QUESTIONS} questions each, 16 bits. Cells: log-likelihood of the "
            "right answer, nats a token; F1 of the words of the\nanswer that the model gives; by how much `epicache` is "
            "likelier, question by question, with the standard error of that\ndifference.\n\n" +
            "\n".join(page)) if page else ""


def main():
    parser = argparse.ArgumentParser(description="docs/results/recall.md: conversations, kept and asked about")
    parser.add_argument("--conversations", nargs="*", default=[], help="files in LoCoMo's format")
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/recall")
    parser.add_argument("--only-finished", action="store_true",
                        help="write the page from what --work and docs/results/recall.json hold")
    args = parser.parse_args()
    runs = Runs(args, "recall.json")
    page = ["# Long conversations, kept and asked about\n\nWritten by `bench/recall.py`, which runs `kvasir eval recall`. "
            "Each conversation is read once in each way and every question\nis asked from that state. The likelihood of "
            "the right answer tells more than the share of right ones: these are small models.\nTimes are those of a busy "
            "machine; tokens decoded say what a way costs.\n",
            methods_section(runs), codec_section(runs), parts_section(runs),
            recorded_section(runs, args.conversations)]
    out = ROOT / "docs/results/recall.md"
    out.write_text("\n".join(part for part in page if part))
    runs.save()
    print(out)


if __name__ == "__main__":
    main()
