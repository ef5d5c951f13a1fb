# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""docs/results/peers.md from finished cells."""

from catalogue import FULL, KVASIR, PEERS, TRANSFORMERS

HEAD = """# Other compressed caches beside Kvasir's

Written by `bench/peers/run.py -f wikitext2-test.txt --models {models}`, which installs the packages at pinned versions
(`bench/peers/requirements.txt`, `bench/peers/catalogue.py`; torch {torch}) and runs each cache through its own
public interface. No code of theirs is part of Kvasir.

**Same for all rows:** F32 weights from the same GGUF file, the first window of {context} tokens of WikiText-2's raw
test split, its second half scored over the full vocabulary in double precision, against the full F32 cache of the same
engine: transformers' for the packages, llama.cpp's for Kvasir. The two agree about the text:
{agreement}.

**Fed in pieces of {piece} tokens.** Most of these caches hand the attention the keys they were given and store the
quantised ones for later, so a window read in one call costs nothing and shows nothing (the row `window in one call`).
In pieces each token attends to what the cache made of everything before its piece. Kvasir's packed boundary moves in
blocks of 64 by itself, whatever the calls are.

**Bits** are those of the whole cache at the window's end, divided by the values it stands for, windows in 16 bits and
scales included. Floats that follow the model's type count as 16 bits. *packed*: as if each code took its nominal bits;
*stored*: what the package's arrays take; *held*: with the expanded copies that the cache object keeps. Where
*stored* is far above *packed*, the package simulates the codec and saves less than it says, or nothing. Kvasir's bits
are what it allocated, up to 128 tokens of window more than asked for: 1 bit at this length, less at longer ones. The
last column is Kvasir's best codec that takes no more than the *packed* bits with the same 16-bit windows.
"""
EVICTION = """
kvpress removes tokens instead of storing them in fewer bits, once, after a prefill in full precision. Its rows read the
first half of the window in one call, thin it out, and score the second half, which stays whole: the question is hidden
while compressing, and nothing of the second half is compressed. Kvasir's rows compress both halves. Bits are those at
the window's end, with the second half in 16; a half removed leaves 8 of the first half.
"""
TABLE = ["| package | cache | bits packed | stored | held | mean KLD | ± | 99 % | top-1 | perplexity |",
         "|---|---|---|---|---|---|---|---|---|---|"]
BESIDE = [TABLE[0] + " Kvasir within its packed bits: bits, KLD |", TABLE[1] + "---|"]


def number(value):
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.1e}"


def row(label, method, cell):
    if "error" in cell:
        return f"| {label} | {method} | did not run: {cell['error'].replace('|', '/')} |" + " |" * 7
    return (f"| {label} | {method} | {cell['bits_packed']:.2f} | {cell['bits_stored']:.2f} | {cell['bits_held']:.2f} | "
            f"{number(cell['kld'])} | {cell['kld_se']:.1g} | {cell['kld_p99']:.2g} | {100 * cell['top1']:.1f} % | "
            f"{cell['ppl']:.2f} |")


def kvasir_row(codec, cell):
    bits = f"{cell['bits_per_value']:.2f}"
    kld = cell["kld"]
    return (f"| Kvasir | {codec} | {bits} | {bits} | {bits} | {number(kld['mean'])} | {kld['se']:.1g} | "
            f"{kld['p99']:.2g} | {100 * cell['top1']:.1f} % | {cell['ppl']:.2f} |")


def kvasir_cells(cells, model, windows):
    for sink, recent, codecs, _ in KVASIR:
        if (sink, recent) == windows:
            for codec in codecs:
                if cell := cells.get(model, "kvasir", f"{codec}-{sink}-{recent}"):
                    yield codec, cell


def best_within(cells, model, windows, bits):
    """Kvasir's nearest to the base, with the same windows and no more bits than the peer would take if it packed."""
    fitting = [(cell["kld"]["mean"], codec, cell["bits_per_value"])
               for codec, cell in kvasir_cells(cells, model, windows) if cell["bits_per_value"] <= bits + 0.05]
    if not fitting:
        return "none"
    kld, codec, bits = min(fitting)
    return f"{codec}: {bits:.2f}, {number(kld)}"


def peer_rows(cells, model, peers, beside):
    for key in peers:
        peer = PEERS[key]
        for method in peer.methods:
            if cell := cells.get(model, key, method):
                found = best_within(cells, model, peer.windows, cell["bits_packed"]) if "kld" in cell else ""
                yield row(f"{peer.name} {peer.version}", method, cell) + (f" {found} |" if beside else "")


def model_section(cells, arguments, model):
    base = cells.get(model, "base", FULL)
    if base is None:
        return []
    lines = [f"\n## {model}\n", f"Perplexity of the full cache: {base['ppl']:.2f}.\n", *BESIDE]
    lines += peer_rows(cells, model, [key for key in arguments.peers if key != "kvpress"], True)
    lines += ["\n### Kvasir\n", *TABLE]
    for sink, recent, _, note in KVASIR:
        lines += [kvasir_row(f"{codec} ({note})", cell) for codec, cell in kvasir_cells(cells, model, (sink, recent))]
    if evicted := list(peer_rows(cells, model, [key for key in arguments.peers if key == "kvpress"], False)):
        lines += ["\n### kvpress", EVICTION, *TABLE, *evicted]
    return lines


def report(cells, arguments):
    pairs, torch = [], ""
    for model in arguments.models:
        ours, theirs = cells.get(model, "kvasir", "q8-0-0"), cells.get(model, "base", FULL)
        if ours and theirs:
            torch = theirs["torch"]
            pairs.append(f"perplexity {theirs['ppl']:.4f} and {ours['ppl_base']:.4f} on {model}")
    lines = [HEAD.format(models=",".join(arguments.models), context=arguments.context, piece=arguments.piece,
                         torch=torch, agreement=", ".join(pairs) or "not measured")]
    for model in arguments.models:
        lines += model_section(cells, arguments, model)
    measured = [key for key in arguments.peers
                if any(cells.get(model, key, method) for model in arguments.models for method in PEERS[key].methods)]
    versions = sorted({(PEERS[key].name, PEERS[key].version, PEERS[key].transformers) for key in measured})
    lines += ["\n## Versions\n", "| package | version | with transformers |", "|---|---|---|"]
    lines += [f"| {name} | {version} | {transformers} |" for name, version, transformers in versions]
    lines.append(f"\nTransformers in {len(TRANSFORMERS)} versions, because what it asks of a cache changed in between "
                 "and each package runs with one of them only. The full cache of the newest is the base; those of the "
                 "others are this far from it:\n\n| model | transformers | mean KLD |\n|---|---|---|")
    for model in arguments.models:
        for version in TRANSFORMERS:
            if cell := cells.get(model, FULL, version):
                lines.append(f"| {model} | {version} | {number(cell['kld'])} |")
    return "\n".join(lines) + "\n"
