#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/results/turboquant.md: TurboQuant's codecs on real models and against theory. What --work holds already
# isn't run again, so it can be stopped and started.
#
#   bench/turboquant.py -f TEXT [--work DIR] [--only-finished]
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ["smollm2-f32", "gemma3-270m-f32", "qwen2.5-coder-0.5b-f32", "qwen2.5-coder-1.5b-f32"]
HEAD_DIM = {"smollm2-f32": 64, "gemma3-270m-f32": 256, "qwen2.5-coder-0.5b-f32": 64, "qwen2.5-coder-1.5b-f32": 128}
LONG_MODELS = MODELS[:2]
SHORT, LONG = 2048, 4096
PLAIN = ["turbo2", "turbo2.5", "turbo3", "turbo3.5", "turbo4", "turbo4.5"]
PAIRS = ["turbo4.5/turbo4", "turbo4/turbo2", "q8/turbo3"]
NATIVE = {"llama-q4_0": 4.5, "llama-q5_1": 6.0, "llama-q8_0": 8.5}  # bits
PRODUCT = ["turboprod3", "turboprod3/turbo3"]
ENDS = "@0-1:q8@-2--1:q8"
PROTECTIONS = ["turbo3", "turbo3:mean=off", "turbo3" + ENDS, "turbo3/turbo3:mean=on", "turbo3:split=on",
               "turbo3:scale=norm", "turbo3:scale=matched", "turbo3:scale=unbiased", "turbo3:scale=least-squares"]
WINDOWS = [(0, 0), (4, 0), (16, 0), (16, 64), (64, 256)]
DIMS = [64, 96, 128, 256, 1536]
SCALES = ["norm", "matched", "unbiased", "least-squares"]
INPUTS = ["gaussian", "spike", "constant", "outliers"]


class Bench:
    def __init__(self, args):
        self.args = args

    def kvasir(self, *arguments):
        command = [self.args.kvasir, *map(str, arguments), "--json"]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if result.returncode != 0:
            sys.exit(" ".join(command) + f" ended with {result.returncode}")
        return json.loads(result.stdout)

    # Cells of one suite: {(model, method): result}.
    def suite(self, folder, models, methods, context, sink=16, recent=64):
        path = self.args.work / folder
        if not self.args.only_finished:
            self.kvasir("eval", "suite", "-m", ",".join(models), "--kv", ",".join(methods), "--tasks", "kld", "-c",
                        context, "--chunks", 1, "--sink", sink, "--recent", recent, "-f", self.args.file, "-o", path)
        cells = {}
        index = json.loads((path / "suite.json").read_text())["cells"] if (path / "suite.json").exists() else []
        for entry in index:
            if entry["status"] == "done" and entry.get("context") == context and entry["method"] in methods:
                cells[entry["model"], entry["method"]] = json.loads((path / entry["file"]).read_text())["result"]
        return cells

    def distort(self, codec, dim, source="gaussian", tokens=16384):
        path = self.args.work / "distort" / f"{codec}__{dim}__{source}.json".replace(":", "-")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            found = self.kvasir("distort", "--kv", codec, "--dim", dim, "--side", "value", "--input", source, "--tokens",
                                min(tokens, 4194304 // dim))
            path.write_text(json.dumps(found))
        return json.loads(path.read_text())


    # Bits a value of pages, windows not counted: the mean of both sides.
    def page_bits(self, method, dim):
        path = self.args.work / "bits" / f"{method}__{dim}.json".replace(":", "-").replace("/", "+")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            found = self.kvasir("distort", "--kv", method.replace("/", ","), "--dim", dim, "--tokens", 64)["sides"]
            path.write_text(json.dumps({side: found[side]["bits_per_value"] for side in found}))
        found = json.loads(path.read_text())
        return (found["key"] + found["value"]) / 2


# One whose page's numbers are kept beside it, as JSON: what the work folder lacks is taken from there.
class KeptBench(Bench):
    def __init__(self, args, file):
        super().__init__(args)
        self.file = ROOT / "docs/results" / file
        self.kept = json.loads(self.file.read_text()) if self.file.exists() else {}

    def save(self):
        text = json.dumps(self.kept, indent=1, sort_keys=True)
        numbers = re.compile(r"\[([-\s\d.,e]+)\]")  # a line each
        self.file.write_text(numbers.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text) + "\n")


def rows(head, body):
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|"] +
                     ["| " + " | ".join(row) + " |" for row in body]) + "\n"


def number(x):
    return f"{x:.1e}".replace("e-0", "e-") if x < 1e-3 else f"{x:.2g}".lstrip("0") if x < 1 else f"{x:.2f}"


def cell_text(cell):
    return f"{number(cell['kld']['mean'])} ± {number(cell['kld']['se'])}; {100 * cell['top1']:.1f} %; {cell['ppl']:.2f}"


def kld_table(bench, cells, models, methods):
    body = []
    for method in methods:
        found = [cells.get((model, method)) for model in models]
        if any(found):
            bits = " / ".join(f"{cell['bits_per_value']:.1f}" if cell else "-" for cell in found)
            plain = method.split("@")[0]
            pages = " / ".join(f"{NATIVE[method] if method in NATIVE else bench.page_bits(plain, HEAD_DIM[m]):.2f}"
                               for m in models)
            body.append([f"`{method}`", pages, bits] + [cell_text(cell) if cell else "not run" for cell in found])
    return rows(["cache", "bits of pages, model by model", "bits of all that is held"] + models, body)


# "At equal or fewer bits the lower KLD": for each of llama.cpp's types, our best cell among those of no more bits.
def claim_table(bench, cells, models):
    body = []
    for native, most in NATIVE.items():
        row = [f"`{native}`"]
        for model in models:
            theirs = cells.get((model, native))
            ours = [(cells[model, m]["kld"]["mean"], m) for m in PLAIN + PAIRS + ["q8"]
                    if (model, m) in cells and bench.page_bits(m, HEAD_DIM[model]) <= most]
            if not theirs or not ours:
                row.append("not run")
                continue
            kld, method = min(ours)
            row.append(f"`{method}` {number(kld)} against {number(theirs['kld']['mean'])}: "
                       f"{theirs['kld']['mean'] / kld:.3g} times lower" if kld < theirs["kld"]["mean"] else
                       f"`{method}` {number(kld)} against {number(theirs['kld']['mean'])}: **higher**")
        body.append(row)
    return rows(["llama.cpp's"] + models, body)


def theory_tables(bench):
    parts = []
    body = []
    for bits in range(1, 6):
        for scale in SCALES:
            for rotation in ["signed-fwht", "haar"]:
                row = [str(bits), scale, rotation]
                for dim in DIMS:
                    found = bench.distort(f"turbo{bits}:mean=off:scale={scale}:rotation={rotation}", dim)
                    row.append(f"{found['mse']:.5f} ({100 * (found['mse'] / found['theory_mse'] - 1):+.2f} %)")
                body.append(row + [f"{4.0 ** -bits:.5f}"])
    parts.append("### Squared error of `turbo*`, and how far from theory\n\n"
                 + rows(["b", "scale", "rotation"] + [f"d = {d}" for d in DIMS] + ["Shannon 4^-b"], body))
    body = []
    for bits in range(1, 5):
        for projection in ["orthogonal", "gaussian"]:
            for dim in DIMS:
                found = bench.distort(f"turboprod{bits}:projection={projection}", dim)
                sigmas = found["ip_bias"] / found["ip_bias_se"]
                body.append([str(bits), projection, str(dim), f"{found['ip_bias']:+.1e} ({sigmas:+.1f})",
                             f"{found['ip_var']:.4f}", f"{found['theory_ip_var']:.4f}",
                             f"{100 * (found['ip_var'] / found['theory_ip_var'] - 1):+.1f} %"])
    parts.append("### Scores of `turboprod*`\n\nBias relative to the score, with its standard errors in brackets; variance "
                 "is d Var <q, e> / (|q|² |x|²), one query a vector, so its own standard error is sqrt(2 / n): 1.1 % at "
                 "16,384 vectors, 2.7 % at the 2,730 of d = 1536. A Gaussian S is unbiased over draws of S; one draw, "
                 "as here and in any cache, is off by up to a per cent or so.\n\n"
                 + rows(["b", "S", "d", "bias", "variance", "theory", "off by"], body))
    body = []
    for codec in PLAIN + ["turbo1", "turbo2:scale=norm", "turbo3:rotation=haar", "turboprod3", "q8", "kivi4", "kivi2"]:
        found = {source: bench.distort(codec, 128, source)["mse"] for source in INPUTS}
        body.append([f"`{codec}`"] + [f"{found[s]:.5f}" + (f" ({found[s] / found['gaussian']:.1f}x)"
                                                           if found[s] > 2 * found["gaussian"] else "") for s in INPUTS])
    parts.append("### Hard inputs, d = 128, values\n\nOne channel alone, all channels equal, four channels 20 times the "
                 "rest. What loses more than twice the error of normal vectors shows by how much.\n\n"
                 + rows(["codec"] + INPUTS, body))
    return "\n".join(parts)


HEAD = f"""# TurboQuant

Written by `bench/turboquant.py -f wikitext2-test.txt`, which runs `kvasir eval suite` (KLD from llama.cpp's own f16 cache,
F32 weights, one window, second half scored) and `kvasir distort`. Cells are mean KLD ± standard error; share of equal
likeliest tokens; perplexity. Bits count everything held at that length. Windows are 16 first and 64 to 192 newest tokens
in 16 bits unless said otherwise; llama.cpp's own caches have none. `K/V` gives keys and values different codecs.
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-f", "--file", required=True)
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/results/turboquant")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/turboquant.md")
    parser.add_argument("--only-finished", action="store_true", help="run no model, write what --work holds")
    parser.add_argument("--models", type=lambda s: s.split(","), default=MODELS)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    methods = ["q8"] + PLAIN + PAIRS + PRODUCT + list(NATIVE)
    short = bench.suite("kld", args.models, methods, SHORT)
    long_models = [m for m in LONG_MODELS if m in args.models]
    long = bench.suite("kld", long_models, methods, LONG)
    parts = [HEAD]
    for title, cells, models in [(f"{SHORT} tokens", short, args.models), (f"{LONG} tokens", long, long_models)]:
        parts.append(f"## {title}\n\n" + kld_table(bench, cells, models, ["q8"] + PLAIN + PAIRS + list(NATIVE)))
        parts.append("Our lowest KLD among caches whose pages take no more bits than each of llama.cpp's types:\n\n" + claim_table(bench, cells, models))
    parts.append("## The second stage: `turboprod3` against `turbo3`\n\nSame bits of codes; `turboprod3` has .125 to .25 "
                 "more for its second scale. Both sides, or keys alone.\n\n"
                 + kld_table(bench, short, args.models, ["turbo3"] + PRODUCT))
    small = [m for m in args.models if m != MODELS[3]]
    guarded = bench.suite("protections", small[:2], PROTECTIONS, SHORT)
    parts.append(f"## Protections and scales, `turbo3`, {SHORT} tokens\n\n`turbo3` removes the mean of a page from keys and "
                 "stores the unbiased scale for keys, least squares for values; `scale=` sets both sides alike.\n\n"
                 + kld_table(bench, guarded, small[:2], PROTECTIONS))
    body = []
    for sink, recent in WINDOWS:
        cells = bench.suite(f"windows-{sink}-{recent}", small[:2], ["turbo3"], SHORT, sink, recent)
        body.append([f"{sink} + {recent}"] + [f"{cells[m, 'turbo3']['bits_per_value']:.2f}: "
                                              f"{cell_text(cells[m, 'turbo3'])}" if (m, "turbo3") in cells else "not run"
                                              for m in small[:2]])
    parts.append(f"## Windows, `turbo3`, {SHORT} tokens\n\nSink + recent tokens in 16 bits (up to 128 more are waiting for "
                 "their page). Bits, then the cell as above.\n\n" + rows(["windows"] + small[:2], body))
    parts.append("## Theory\n\n`kvasir distort --kv CODEC --dim D --side value`.\n\n" + theory_tables(bench))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(parts) + "\n")
    print(args.out)


if __name__ == "__main__":
    main()
