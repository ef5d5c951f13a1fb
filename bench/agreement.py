#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Holds `kvasir eval kld` against llama.cpp's own perplexity tool, on the same text, weights and caches.

    bench/agreement.py -f TEXT [--models a,b] [--caches f16,q8_0,q4_0] [--chunks N]

Builds llama-perplexity once, from the pinned source and linked with the libraries that Kvasir is linked with, into
KVASIR_CACHE_DIR/llama-perplexity; runs both; writes docs/results/agreement.md; and fails if they are further apart
than what the tool's 16-bit file of base logits explains. Finished cells are kept in --cells and not run again.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
from pip_download import pip_download, sha256_of  # noqa: E402

# How far apart the two may be. The tool keeps the base's log-probabilities as 16-bit codes over 16 nats, a step of
# 2.4e-4 and so an error of 7e-5 a position (1.6e-6 over 2,000 of them), prints six decimals, and leaves out the words
# that the base gives less than e^-16, whose share of the divergence is below a percent.
KLD_FLOOR, KLD_SHARE = 1e-5, 0.01
LN_PPL = 1e-5  # perplexity of the cache under test comes from f32 logits in both
TOP1 = 0.002  # two words within one code are a tie in the tool's file

HEAD = """# Agreement with llama.cpp's perplexity tool

Written by `bench/agreement.py -f wikitext2-test.txt --models {models}`, which builds `llama-perplexity` from the pinned
source (package {package} {version}), linked with the same libraries as Kvasir, and runs for each cache

    llama-perplexity BOTH -f TEXT -ub {half} --chunks {chunks} -fa on --kl-divergence-base FILE
    llama-perplexity BOTH -ub {half} -fa on --kl-divergence-base FILE --kl-divergence -ctk CACHE -ctv CACHE
    kvasir eval kld  BOTH -f TEXT --chunks {chunks} --base native --kv native:CACHE --json

where BOTH is `-m MODEL -c {context} -b {half}`. F32 weights, WikiText-2's raw test split, {chunks} windows of {context}
tokens. Both start each window with an empty cache, and with a BOS where the model has one, and score its second half
but for the last token; both feed {half} tokens at a time (the tool 2,048 unless told, and another batch rounds
differently).

They need not be equal: Kvasir compares f32 logits in double precision; the tool reads the base's log-probabilities
from a file of 16-bit codes over 16 nats (a step of 2.4e-4), leaves out words less likely than e^-16, adds up in float,
and prints six decimals. *apart* is the difference of the two mean KL divergences, *allowed* {floor:.0e} + {share:.0%}
of the divergence; perplexities may differ by {ppl:.0e} of themselves, top-1 by {top1:.1%}. The errors after ± are
those of {scored} positions of text; both sides read the same text, so they say nothing of how near the two have to be.

The base's perplexity (the row f16, which is the base) is not held against the tool's line `Mean PPL(base)`, shown below
each table: it comes from that file too, where no word can be less likely than e^-16 of the likeliest, and is too low
as soon as the text has such a word.
"""
UNDER = "\nBase: perplexity {ours:.5f}; from the tool's 16-bit file, `Mean PPL(base)`, {theirs:.5f}."
TABLE = """
## {model} ({scored} positions)

| cache | KLD, tool | Kvasir | apart | allowed | 99 %, tool | Kvasir | ppl, tool | Kvasir | top-1, tool | Kvasir | |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def say(text):
    print(f"agreement: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{(result.stderr or result.stdout).strip()[-500:]}")
    return result


def pins():
    text = (ROOT / "tools/pins.sh").read_text()
    return dict(re.findall(r"^(LLAMA_\w+)=(\S+)$", text, re.MULTILINE))


def cache_folder():
    return pathlib.Path(os.environ.get("KVASIR_CACHE_DIR") or pathlib.Path.home() / ".cache/kvasir")


def unpacked_source(folder):
    pin = pins()
    say(f"downloading {pin['LLAMA_PACKAGE']} {pin['LLAMA_VERSION']} (77 MB)")
    package = pip_download(pin["LLAMA_PACKAGE"], pin["LLAMA_VERSION"], folder, source=True)
    if sha256_of(package) != pin["LLAMA_SHA256"]:
        sys.exit(f"{os.path.basename(package)}: SHA-256 is {sha256_of(package)}, expected {pin['LLAMA_SHA256']}")
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    source, = pathlib.Path(folder).glob("*/vendor/llama.cpp")
    return source


def perplexity_tool(arguments):
    """The built program; its folder's name tells which libraries are inside."""
    prefix = arguments.llama_prefix or run([ROOT / "tools/build_llama.sh"]).stdout.strip()
    recipe = ROOT / "bench/llama_perplexity"
    digest = hashlib.sha256((recipe / "CMakeLists.txt").read_bytes())
    for library in sorted(pathlib.Path(prefix, "lib").glob("*.a")):
        digest.update(sha256_of(library).encode())
    tool = cache_folder() / "llama-perplexity" / digest.hexdigest()[:12] / "llama-perplexity"
    if tool.exists():
        return tool
    tool.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build.", dir=tool.parent.parent) as work:
        source = arguments.llama_source or unpacked_source(work)
        say("building llama-perplexity (about 5 minutes)")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        run(["cmake", "-S", recipe, "-B", f"{work}/build", *generator, "-DCMAKE_BUILD_TYPE=Release",
             f"-DCMAKE_PREFIX_PATH={prefix}", f"-DLLAMA_SOURCE={pathlib.Path(source).resolve()}"])
        run(["cmake", "--build", f"{work}/build", "--target", "llama-perplexity", "--parallel", arguments.jobs])
        shutil.move(f"{work}/build/bin/llama-perplexity", tool)
    return tool


NUMBERS = {  # name -> how the tool prints it
    "ppl": r"Mean PPL\(Q\)\s*:\s*(\S+) ±", "ppl_base": r"Mean PPL\(base\)\s*:\s*(\S+) ±",
    "kld": r"Mean\s+KLD:\s*(\S+) ±", "kld_se": r"Mean\s+KLD:\s*\S+ ±\s*(\S+)", "p99": r"99\.0%\s+KLD:\s*(\S+)",
    "top1": r"Same top p:\s*(\S+) ±",
}


def read_tool(text):
    found = {}
    for name, pattern in NUMBERS.items():
        match = re.search(pattern, text)
        if not match:
            sys.exit(f"llama-perplexity printed no {name}:\n{text.strip()[-500:]}")
        found[name] = float(match[1])
    found["top1"] /= 100
    return found


class Model:
    """One model's runs; the tool's base file is written when the first missing cell needs it."""

    def __init__(self, arguments, tool, name, work):
        self.arguments, self.name = arguments, name
        self.base = pathlib.Path(work) / f"{name}.kld"
        path = pathlib.Path(name)
        self.path = path if path.suffix == ".gguf" else cache_folder() / "models" / f"{name}.gguf"
        half = arguments.context // 2
        self.common = ["-c", arguments.context, "-b", half]
        self.tool = [tool, "-m", self.path, *self.common, "-ub", half, "-fa", "on", "-t", arguments.threads,
                     "--kl-divergence-base", self.base]

    def kvasir(self, cache):
        command = [self.arguments.kvasir, "eval", "kld", "-m", self.name, "-f", self.arguments.file, *self.common,
                   "--chunks", self.arguments.chunks, "-t", self.arguments.threads, "--base", "native", "--kv",
                   f"native:{cache}", "--json"]
        return json.loads(run(command).stdout)

    def llama(self, cache):
        if not self.base.exists():
            say(f"{self.name}: base, llama-perplexity")
            run([*self.tool, "-f", self.arguments.file, "--chunks", self.arguments.chunks])
        result = run([*self.tool, "--kl-divergence", "-ctk", cache, "-ctv", cache])
        return read_tool(result.stdout + result.stderr)

    def cell(self, cache):
        windows = f"{self.arguments.context}x{self.arguments.chunks}"
        kept = self.arguments.cells / f"{self.name.replace('/', '-')}__{cache}__{windows}.json"
        if not kept.exists():
            say(f"{self.name}: {cache}")
            both = {"kvasir": self.kvasir(cache), "llama": self.llama(cache)}
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(both, indent=1) + "\n")
        return json.loads(kept.read_text())


def judge(cell):
    """What the two say, and the sentence for each measure in which they are too far apart."""
    ours, theirs = cell["kvasir"], cell["llama"]
    apart, allowed = abs(ours["kld"]["mean"] - theirs["kld"]), KLD_FLOOR + KLD_SHARE * ours["kld"]["mean"]
    faults = []
    if apart > allowed:
        faults.append(f"mean KLD is {ours['kld']['mean']:.6f} here and {theirs['kld']:.6f} there, "
                      f"{apart:.1e} apart where {allowed:.1e} is allowed")
    if not abs(math.log(ours["ppl"] / theirs["ppl"])) <= LN_PPL:
        faults.append(f"perplexity is {ours['ppl']:.6f} here and {theirs['ppl']:.6f} there")
    if abs(ours["top1"] - theirs["top1"]) > TOP1:
        faults.append(f"top-1 is {100 * ours['top1']:.2f} % here and {100 * theirs['top1']:.2f} % there")
    return apart, allowed, faults


def table_row(cache, cell, apart, allowed, faults):
    ours, theirs = cell["kvasir"], cell["llama"]
    kld = ours["kld"]
    return (f"| {cache} | {theirs['kld']:.6f} ± {theirs['kld_se']:.6f} | {kld['mean']:.6f} ± {kld['se']:.6f} | "
            f"{apart:.1e} | {allowed:.1e} | {theirs['p99']:.5f} | {kld['p99']:.5f} | {theirs['ppl']:.5f} | "
            f"{ours['ppl']:.5f} | {100 * theirs['top1']:.2f} % | {100 * ours['top1']:.2f} % | "
            f"{'disagree' if faults else 'agree'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-f", "--file", required=True)
    parser.add_argument("--models", type=lambda s: s.split(","), default=["smollm2-f32", "qwen2.5-coder-0.5b-f32"])
    parser.add_argument("--caches", type=lambda s: s.split(","), default=["f16", "q8_0", "q4_0"])
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="for building the tool")
    parser.add_argument("--kvasir", default=ROOT / "build/release/bin/kvasir")
    parser.add_argument("--llama-prefix", help="where the libraries are that kvasir was linked with")
    parser.add_argument("--llama-source", help="the unpacked source, to save the download")
    parser.add_argument("--cells", type=pathlib.Path, default=ROOT / "build/results/agreement")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/agreement.md")
    arguments = parser.parse_args()

    tool = perplexity_tool(arguments)
    pin, half = pins(), arguments.context // 2
    scored = arguments.chunks * (half - 1)
    lines = [HEAD.format(models=",".join(arguments.models), package=pin["LLAMA_PACKAGE"],
                         version=pin["LLAMA_VERSION"], context=arguments.context, half=half, chunks=arguments.chunks,
                         floor=KLD_FLOOR, share=KLD_SHARE, ppl=LN_PPL, top1=TOP1, scored=scored)]
    disagreements = []
    with tempfile.TemporaryDirectory(prefix="kvasir-agreement.") as work:
        for name in arguments.models:
            model = Model(arguments, tool, name, work)
            lines.append(TABLE.format(model=name, scored=scored))
            for cache in arguments.caches:
                cell = model.cell(cache)
                apart, allowed, faults = judge(cell)
                lines.append(table_row(cache, cell, apart, allowed, faults))
                disagreements += [f"{name}, {cache}: {fault}" for fault in faults]
            lines.append(UNDER.format(ours=cell["kvasir"]["ppl_base"], theirs=cell["llama"]["ppl_base"]))
            model.base.unlink(missing_ok=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n")
    print(arguments.out)
    if disagreements:
        sys.exit("kvasir eval kld and llama-perplexity disagree:\n" + "\n".join(disagreements))


if __name__ == "__main__":
    main()
