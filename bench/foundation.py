#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/results/foundation.md: every codec and llama.cpp's own cache types against llama.cpp's f16 cache, by
# `kvasir eval kld`, on F32 weights. Finished cells are kept in --cells and not run again.
#
#   bench/foundation.py -f TEXT [--models a,b] [--kv a,b] [--cells DIR] [--only-finished]
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {"smollm2-f32": 2, "gemma3-270m-f32": 2, "qwen2.5-coder-0.5b-f32": 1,
          "qwen2.5-coder-1.5b-f32": 1}  # windows scored
CACHES = ["f16", "q8", "kivi4", "turbo4", "turbo3", "kivi2", "turbo2", "turbo4 --no-protect",
          "native:q8_0", "native:q5_1", "native:q4_0"]
HEAD = """# Every codec on real models

Written by `bench/foundation.py -f wikitext2-test.txt`; each cell is one run of

    kvasir eval kld -m MODEL -f wikitext2-test.txt -c {context} --chunks N --base native --kv CACHE --sink {sink} --recent {recent} --json

Weights are F32, the text is WikiText-2's raw test split, windows of {context} tokens, the second half of each scored. KLD
is the mean divergence of the full vocabulary from llama.cpp's own f16 cache, through the compressed pages, with its
standard error. Bits count everything at that length: pages, scales, page means, and the {sink} + {recent} tokens (and up to
128 more) that stay in 16 bits. At longer contexts they approach the bits of a page. `native:` is llama.cpp's own cache.
"""


def run_cell(args, model, cache, chunks):
    name = f"{model}__{cache}__{args.context}x{chunks}".replace(":", "-").replace(" ", "")
    path = args.cells / f"{name}.json"
    if path.exists() and path.stat().st_size > 0:
        return json.loads(path.read_text())
    if args.only_finished:
        return None
    codec, *flags = cache.split()
    command = [args.kvasir, "eval", "kld", "-m", model, "-f", args.file, "-c", str(args.context), "--chunks", str(chunks),
               "--base", "native", "--kv", codec, "--sink", str(args.sink), "--recent", str(args.recent), "--json", *flags]
    print(f"{model} {cache} ...", file=sys.stderr, flush=True)
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stderr.strip().splitlines()[-1]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(result.stdout)
    return json.loads(result.stdout)


def table(args, model, chunks):
    lines = [f"\n## {model} ({chunks} window{'s' if chunks > 1 else ''})\n",
             "| cache | bits at this length | page bits K / V | mean KLD | ± | 99 % | top-1 | perplexity |",
             "|---|---|---|---|---|---|---|---|"]
    for cache in args.kv:
        found = run_cell(args, model, cache, chunks)
        if found is None:
            continue
        cell = found
        kld = cell["kld"]
        layer = (cell.get("layers") or [{}])[0]
        pages = f"{layer['k_page_bits']:.3g} / {layer['v_page_bits']:.3g}" if "k_page_bits" in layer else ""
        lines.append(f"| {cache} | {cell['bits_per_value']:.2f} | {pages} | {kld['mean']:.3g} | {kld['se']:.1g} | "
                     f"{kld['p99']:.2g} | {100 * cell['top1']:.1f} % | {cell['ppl']:.2f} |")
    lines.append(f"\nPerplexity of the f16 cache: {cell['ppl_base']:.2f}.")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-f", "--file", required=True)
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--models", type=lambda s: s.split(","), default=list(MODELS))
    parser.add_argument("--kv", type=lambda s: s.split(","), default=CACHES)
    parser.add_argument("--cells", type=pathlib.Path, default=ROOT / "build/results/foundation")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/foundation.md")
    parser.add_argument("--only-finished", action="store_true", help="run nothing, write what --cells holds")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--sink", type=int, default=16)
    parser.add_argument("--recent", type=int, default=64)
    args = parser.parse_args()
    parts = [HEAD.format(context=args.context, sink=args.sink, recent=args.recent)]
    parts += [table(args, model, MODELS.get(model, 1)) for model in args.models]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(parts) + "\n")
    print(args.out)


if __name__ == "__main__":
    main()
