#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/results/calibrated.md: the codecs that are fitted to a model, against llama.cpp's caches, TurboQuant and
# OSCAR, and what the text that they are fitted on changes. What --work holds already isn't run again. The page's
# numbers are kept beside it, in calibrated.json: cells that --work lacks are taken from there
# with --only-finished.
#
#   bench/calibrated.py -f TEST [--texts NAME=TRAIN,TEST ...] [--work DIR] [--only-finished]
#
# Models have to be calibrated before (`kvasir calibrate -m MODEL -f TEXT`): their kept calibrations are used.
import argparse
import json
import pathlib

from turboquant import MODELS, ROOT, KeptBench, cell_text, number, rows

SHORT, LONG = 2048, 8192
LONG_OTHERS = ["turbo2", "turbo3", "turbo4", "llama-q8_0"]
SPECTRAL = ["spectral2", "spectral2.5", "spectral3", "spectral3.5", "spectral4"]
TURBO = ["turbo2", "turbo2.5", "turbo3", "turbo3.5", "turbo4", "turbo4.5"]
NATIVE = {"llama-q4_0": 4.5, "llama-q5_1": 6.0, "llama-q8_0": 8.5}
OSCAR = [("oscar2:rotation=none:clip=off", "neither"), ("oscar2:rotation=none", "clip only"), ("oscar2:rotation=h", "H"),
         ("oscar2:rotation=u", "U"), ("oscar2:rotation=uh", "U H"), ("oscar2", "U H P, as published"),
         ("oscar2:heads=own:mean=on", "U H P for each head, key mean removed"),
         ("oscar2:mean=on", "U H P, key mean removed")]
PARTS = ["spectral2:quantizer=lloyd-max", "spectral3:quantizer=lloyd-max", "spectral3:weights=none"]
BARE = ["spectral2", "spectral3", "turbo2", "turbo3", "oscar2", "oscar2:mean=on"]
# What the issue of this table asked for: spectral codec, native type, most of its KLD, goal.
TARGETS = [("spectral2", "llama-q4_0", 1, 1 / 2), ("spectral3", "llama-q5_1", 1, 1 / 2),
           ("spectral4", "llama-q5_1", 1 / 4, 1 / 8)]

FREE = ("oscar2:rotation=none", "oscar2:rotation=h")  # nothing in them comes from a calibration


class CalibratedBench(KeptBench):
    # As in Bench, with what the cell's codecs were fitted by.
    def suite(self, folder, models, methods, context, sink=16, recent=64):
        table = self.kept.setdefault(folder, {})
        for (model, method), cell in super().suite(folder, models, methods, context, sink, recent).items():
            kept = {"kld": {part: cell["kld"][part] for part in ("mean", "se")}, "top1": cell["top1"],
                    "ppl": cell["ppl"]}
            if method.startswith(("spectral", "oscar2")) and not method.startswith(FREE):
                name = f"{model}_kld-{context}_{method}".replace(":", "-").replace("=", "-").replace("/", "+")
                path = self.args.work / folder / "cells" / f"{name}.json"
                kept["fitted_by"] = json.loads(path.read_text())["parameters"]["fitted_by"]
            if table.get(f"{model} {method}") != kept:  # perhaps of another calibration, with other classes of bits
                self.kept.get("bits", {}).pop(f"{model} {method}", None)
            table[f"{model} {method}"] = kept
        return {(model, method): table[f"{model} {method}"] for model in models for method in methods
                if f"{model} {method}" in table}

    # Bits a value of pages, windows not counted.
    def bits(self, model, method):
        if method in NATIVE:
            return NATIVE[method]
        bits = self.kept.setdefault("bits", {})
        if f"{model} {method}" not in bits:
            found = self.kvasir("plan", "-m", model, "-c", 4096, "--kv", method.replace("/", ","))
            bits[f"{model} {method}"] = found["page_bits_per_value"]
        return bits[f"{model} {method}"]

    # One text's calibration on another's test, mean KLD.
    def cross(self, model, name, calibration, test):
        table = self.kept.setdefault("cross", {})
        path = self.args.work / "cross" / f"{name}.json"
        if not path.exists() and not self.args.only_finished:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.kvasir("eval", "kld", "-m", model, "-f", test, "-c", SHORT, "--chunks", 1,
                                                   "--base", "native", "--kv", "spectral3", "--calibration",
                                                   calibration, "--sink", 16, "--recent", 64)))
        if path.exists():
            kld = json.loads(path.read_text())["kld"]
            table[name] = {"mean": kld["mean"], "se": kld["se"]}
        return table.get(name)

    def calibration(self, model, name, *arguments):
        path = self.args.work / "calib" / f"{name}.safetensors"
        if not path.exists() and not self.args.only_finished:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.kvasir("calibrate", "-m", model, "-o", path, "--tokens", 8192, *arguments)
        return path


def kld_table(bench, cells, models, methods):
    body = []
    for method in methods:
        found = [cells.get((model, method)) for model in models]
        if any(found):
            bits = " / ".join(f"{bench.bits(m, method):.2f}" if c else "-" for m, c in zip(models, found))
            body.append([f"`{method}`", bits] + [cell_text(cell) if cell else "not run" for cell in found])
    return rows(["cache", "bits of pages, model by model"] + models, body)


# Whose text is listed twice has cells of two calibrations: those without "at all positions" are of a version that read
# its windows at places of the context and left keys their mean.
def sources(cells, models):
    lines = []
    for model in models:
        found = sorted({c["fitted_by"] for (m, _), c in cells.items() if m == model and "fitted_by" in c})
        if found:
            lines.append(f"- {model}: " + "; ".join(found))
    return "\n".join(lines)


# Of the OSCAR rows, each with its own: some don't depend on what the others are fitted by.
def fitted_by(cells, models):
    lines = []
    for method, words in OSCAR:
        found = [f"{m} {cells[m, method]['fitted_by']}" for m in models if "fitted_by" in cells.get((m, method), {})]
        if found:
            lines.append(f"- {words}: fitted by " + "; ".join(found))
    return "\n".join(lines) + "\n"


def target_table(cells, models):
    body = []
    for ours, theirs, most, goal in TARGETS:
        for model in models:
            a, b = cells.get((model, ours)), cells.get((model, theirs))
            if a and b:
                ratio = a["kld"]["mean"] / b["kld"]["mean"]
                verdict = "goal met" if ratio <= goal else "met" if ratio <= most else "**missed**"
                body.append([f"`{ours}`", model, number(a["kld"]["mean"]), f"{theirs} {number(b['kld']['mean'])}",
                             f"{ratio:.3g}", f"{most:g} / {goal:g}", verdict])
    return rows(["codec", "model", "KLD", "against", "ratio", "asked / goal", ""], body)


# Rows of equal bits, as close as they come.
def pair_table(bench, cells, models):
    body = []
    for spectral, turbo in zip(SPECTRAL, TURBO):
        for model in models:
            a, b = cells.get((model, spectral)), cells.get((model, turbo))
            if a and b:
                body.append([model, f"`{spectral}` {bench.bits(model, spectral):.2f}",
                             f"`{turbo}` {bench.bits(model, turbo):.2f}", number(a["kld"]["mean"]),
                             number(b["kld"]["mean"]), f"{b['kld']['mean'] / a['kld']['mean']:.2f}"])
    return rows(["model", "bits", "bits", "KLD", "KLD", "times lower"], body)


def oscar_table(cells, models):
    body = []
    for method, words in OSCAR:
        found = [cells.get((model, method)) for model in models]
        if any(found):
            body.append([words, f"`{method}`"] +
                        [f"{number(c['kld']['mean'])} ± {number(c['kld']['se'])}" if c else "not run" for c in found])
    return rows(["", "cache"] + models, body)


# Only models for which all of it was fitted by the same calibration.
def parts_section(bench, cells, models):
    methods = ["spectral2", PARTS[0], "spectral3", PARTS[1], PARTS[2]]
    models = [model for model in models if (model, PARTS[0]) in cells and
              len({cells[model, m]["fitted_by"] for m in methods if (model, m) in cells}) == 1]
    if not models:
        return ""
    return "## What the parts of `spectral` are worth\n\n" + kld_table(bench, cells, models, methods)


def cross_table(bench, model, texts):
    calibrations = {name: bench.calibration(model, name, "-f", train) for name, (train, _) in texts.items()}
    first = next(iter(texts))
    calibrations[f"{first}, windows of 512"] = bench.calibration(model, "short", "-f", texts[first][0], "--window", 512)
    calibrations["its own text"] = bench.calibration(model, "own")
    if (bench.args.work / "calib" / "document.safetensors").exists() or f"document-{first}" in bench.kept.get("cross", {}):
        calibrations["the project's document"] = bench.args.work / "calib" / "document.safetensors"
    keys = {f"{first}, windows of 512": "short", "its own text": "own", "the project's document": "document"}
    body = []
    for name, path in calibrations.items():
        row = [name]
        for test, (_, file) in texts.items():
            kld = bench.cross(model, f"{keys.get(name, name)}-{test}", path, file)
            row.append(f"{number(kld['mean'])} ± {number(kld['se'])}" if kld else "not run")
        body.append(row)
    return rows(["calibrated on"] + [f"tested on {name}" for name in texts], body)


def main():
    parser = argparse.ArgumentParser(description="docs/results/calibrated.md: codecs fitted to a model")
    parser.add_argument("-f", "--file", type=pathlib.Path, required=True, help="the text to read")
    parser.add_argument("--texts", nargs="*", default=[], help="NAME=TRAIN,TEST: for the table of texts")
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/calibrated")
    parser.add_argument("--only-finished", action="store_true",
                        help="write the page from what --work and docs/results/calibrated.json hold")
    args = parser.parse_args()
    bench = CalibratedBench(args, "calibrated.json")
    small = MODELS[:3]
    cells = bench.suite("short", MODELS, SPECTRAL + TURBO + list(NATIVE), SHORT)
    cells |= bench.suite("short", small, [m for m, _ in OSCAR], SHORT)
    cells |= bench.suite("short", MODELS[:1], PARTS, SHORT)
    long = bench.suite("long", MODELS, SPECTRAL[::2] + LONG_OTHERS, LONG)
    bare = bench.suite("bare", small, BARE, SHORT, sink=0, recent=0)
    texts = {t.split("=")[0]: t.split("=")[1].split(",") for t in args.texts}
    page = ["# Codecs fitted to a model\n\nWritten by `bench/calibrated.py`, which runs `kvasir eval suite` (KLD from "
            "llama.cpp's own f16 cache, F32 weights,\none window of wikitext, second half scored) over calibrations on "
            "another text. Cells are mean KLD ± standard error;\nshare of equal likeliest tokens; perplexity. Bits of "
            "pages count scales; windows are 16 first and 64 to 192 newest tokens in\n16 bits unless said otherwise; "
            "llama.cpp's own caches have none. Codecs were fitted by:\n\n"
            + sources({k: c for k, c in cells.items() if k[1] in SPECTRAL}, MODELS) + "\n",
            f"## {SHORT} tokens\n\n" + kld_table(bench, cells, MODELS, SPECTRAL + TURBO + list(NATIVE)),
            "## Against what was asked\n\n" + target_table(cells, MODELS),
            "## Against TurboQuant at equal bits\n\nSame windows, key mean removed by both.\n\n"
            + pair_table(bench, cells, MODELS),
            f"## {LONG} tokens\n\n" + kld_table(bench, long, MODELS, SPECTRAL[::2] + LONG_OTHERS)
            + "\n" + pair_table(bench, long, MODELS),
            "## OSCAR, step by step\n\nWith the paper's clip ratios (.96 for keys, .92 for values); the windows are the "
            "table's, not the paper's 64 and 256.\n\n" + oscar_table(cells, small) + "\n" + fitted_by(cells, small),
            parts_section(bench, cells, small),
            "## Without windows\n\n" + kld_table(bench, bare, small, BARE) + "\n" + sources(bare, small) + "\n"
            if bare else ""]
    if texts:
        page.append(f"## The text of the calibration\n\n`spectral3` on {MODELS[0]}, {SHORT} tokens, each calibration "
                    "on 8,192 tokens.\n\n" + cross_table(bench, MODELS[0], texts))
    out = ROOT / "docs/results/calibrated.md"
    out.write_text("\n".join(part for part in page if part))
    bench.save()
    print(out)


if __name__ == "__main__":
    main()
