#!/usr/bin/env python3
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes docs/results/vector.md: `kvasir vector bench` beside faiss on the same vectors, one thread each.
#
#   bench/vector.py [--words WORDVECS.json] [--cells DIR] [--only-finished]
#
# faiss comes from the package index into an environment in the cache folder, not from this machine. Finished cells are
# kept in --cells and not measured again; faiss's product quantizers take half an hour to train at full size.
import argparse
import json
import os
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["numpy==2.4.6", "faiss-cpu==1.15.1"]
HITS = 64


def cache_folder():
    return pathlib.Path(os.environ.get("KVASIR_CACHE_DIR") or pathlib.Path.home() / ".cache" / "kvasir")


def environment():
    """The Python of the environment, made on first use."""
    folder = cache_folder() / "bench-vector"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"making {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (folder / "complete").touch()
    return python


def run_json(command, **more):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr.strip()}")
    return json.loads(result.stdout)


class Cells:
    def __init__(self, folder, only_finished):
        self.folder, self.only_finished = folder, only_finished
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, name, measure):
        path = self.folder / f"{name}.json"
        if path.exists() and path.stat().st_size > 0:
            return json.loads(path.read_text())
        if self.only_finished:
            return None
        print(f"{name} ...", file=sys.stderr, flush=True)
        result = measure()
        path.write_text(json.dumps(result, indent=1))
        return result


def measure_ours(args, cells, name, flags, code):
    """One code of ours on one set of vectors; the first one saves them for faiss."""
    more = ["--code", code] if code == "trellis" else ["--save-data", args.cells / f"data-{name}", "--rerank", HITS]
    return cells.get(f"{name}-kvasir-{code}", lambda: run_json(
        [args.kvasir, "vector", "bench", "--bits", args.bits, "--rounds", args.rounds, "--json", *more, *flags]))


def measure_faiss(args, cells, python, name, kinds):
    rows = {}
    for kind in kinds:
        for bits in args.bits.split(","):
            found = cells.get(f"{name}-{kind}-{bits}", lambda: run_json(
                [python, ROOT / "bench" / "vector_faiss.py", args.cells / f"data-{name}", kind, bits, HITS,
                 args.rounds],
                env={**os.environ, "OMP_NUM_THREADS": "1"}))
            if found is not None and "recall_at_1" in found:
                rows[(int(bits), kind)] = found
    return rows


def seconds(value):
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


def row(name, bytes_per_vector, cell, ratios):
    curve = cell["recall_1_at"]
    build, queries = (f"{ratio:.3g}" if ratio else "" for ratio in ratios)
    recalls = " | ".join(f"{curve[k]:.3f}" for k in ("1", "2", "4", "8", "64"))
    return (f"| {name} | {bytes_per_vector:.0f} | {recalls} | {cell['recall_at_10']:.3f} | "
            f"{seconds(cell['build_seconds'])} | {build} | "
            f"{cell['queries_per_second']:.0f} | {queries} |")


def table(scalar, trellis, rows):
    lines = []
    for ours in scalar["results"]:
        bits = ours["bits"]
        lines += [f"\n{bits} bits a number\n",
                  "| index | bytes a vector | 1@1 | 1@2 | 1@4 | 1@8 | 1@64 | 10@10 | build s | scalar builds x faster "
                  "| queries/s | scalar searches x faster |", "|---|---|---|---|---|---|---|---|---|---|---|---|",
                  row("**kvasir** scalar", ours["bytes_per_vector"], ours, (None, None))]
        ratios = lambda cell: (cell["build_seconds"] / ours["build_seconds"],
                               ours["queries_per_second"] / cell["queries_per_second"])
        for other in trellis["results"] if trellis else []:
            if other["bits"] == bits:
                lines.append(row("**kvasir** trellis", other["bytes_per_vector"], other, ratios(other)))
        for (cell_bits, kind), cell in rows.items():
            if cell_bits == bits:
                lines.append(row(cell["name"], cell["bytes_per_vector"], cell, ratios(cell)))
        if "reranked" in ours:
            again = {**ours, **ours["reranked"]}
            lines.append(row(f"kvasir scalar, {HITS} re-ranked in f16", ours["bytes_per_vector"] + 2 * ours["dim"],
                             again, (None, ours["queries_per_second"] / again["queries_per_second"])))
    return "\n".join(lines)


def margins(results):
    lines = ["\n| kvasir | error of the true nearest vector's score (sd) | median gap to the second | queries with a "
             "smaller gap | ms for one query alone |", "|---|---|---|---|---|"]
    for result in results:
        for r in result["results"] if result else []:
            lines.append(f"| {r['code']}, {r['bits']} bits | {r['score_error_sd']:.2e} | {r['gap_median']:.2e} | "
                         f"{100 * r['gap_below_error_sd']:.1f} % | {r['single_query_ms']:.2f} |")
    return "\n".join(lines)


def why(scalar, trellis):
    """Where the nearest vector isn't first, and why: read from the cells."""
    percent = lambda value: f"{100 * value:.1f} %"
    lines = []
    for ours in scalar["results"]:
        best = next((r for r in trellis["results"] if r["bits"] == ours["bits"]), ours) if trellis else ours
        text = (f"At {ours['bits']} bits the nearest vector comes first for {percent(ours['recall_at_1'])} of the "
                f"queries ({percent(best['recall_at_1'])} with the trellis) and is among the first two for "
                f"{percent(ours['recall_1_at']['2'])}: for {percent(ours['gap_below_error_sd'])} the second nearest is "
                "closer to it than one standard deviation of a score's error.")
        if "reranked" in ours:
            text += f" Re-ranking {HITS} candidates finds {percent(ours['reranked']['recall_at_1'])}."
        lines.append(textwrap.fill(text, 118, break_on_hyphens=False))
    return "\n\n" + "\n".join(lines)


HEAD = """# Vector search

Written by `bench/vector.py{words}`: `kvasir vector bench` and faiss {version} on the same vectors, inner product, the
first {hits} hits, one thread ({processor}). Times are CPU seconds, medians of {rounds} runs (a product quantizer
is trained once). "1@k": the true nearest vector is among the first k; "10@10": the share of the true first ten among
the first ten. Bytes a vector are what a search reads: codes, scales and, where a mean was subtracted, one number more;
ids are left out for all. `PQ` has as many bytes as our codes, 8 bits for 8 / bits numbers; `PQ fast-scan` 4 bits for
4 / bits numbers; `SQ tqmse` is faiss's own TurboQuant behind its random rotation; `RaBitQ` its multi-bit RaBitQ, with
more bytes.
"""


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kvasir", default=str(ROOT / "build/release/bin/kvasir"))
    parser.add_argument("--words", help="a JSON file of word vectors, measured as a second set")
    parser.add_argument("--dim", default="1536")
    parser.add_argument("-n", default="100000")
    parser.add_argument("--queries", default="1000")
    parser.add_argument("--bits", default="2,4")
    parser.add_argument("--rounds", default="3")
    parser.add_argument("--faiss", type=lambda s: s.split(","), default=["pq", "pqfs", "tqmse", "rabitq"])
    parser.add_argument("--cells", type=pathlib.Path, default=ROOT / "build/results/vector")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/vector.md")
    parser.add_argument("--only-finished", action="store_true", help="measure nothing, write what --cells holds")
    parser.add_argument("--json", action="store_true", help="print the ratios as one JSON object")
    args = parser.parse_args()
    cells = Cells(args.cells, args.only_finished)
    python = environment() if not args.only_finished else sys.executable

    sets = [("clusters", f"{int(args.n):,} synthetic vectors of {args.dim}",
             ["--dim", args.dim, "-n", args.n, "--queries", args.queries])]
    sets.append(("isotropic", "the same with isotropic clusters", ["--dim", args.dim, "-n", args.n, "--queries",
                                                                     args.queries, "--decay", "0"]))
    notes = {"isotropic": " Members of such a cluster are all about equally far from each other: the hardest data "
                          "there is.",
             "words": " With 800 vectors for 256 centroids a part, the trained quantizers know them nearly by heart, "
                      "and what a query costs beside the scan weighs as much as the scan."}
    if args.words:
        sets.append(("words", "1,000 word vectors of 300, 200 of them queries", ["-f", args.words, "--queries", "200"]))
    parts, summary, version = [], {}, ""
    for name, title, flags in sets:
        scalar = measure_ours(args, cells, name, flags, "scalar")
        trellis = measure_ours(args, cells, name, flags, "trellis")
        # Of isotropic clusters ours alone: they show how hard the data is, not who is faster.
        rows = measure_faiss(args, cells, python, name, [] if name == "isotropic" else args.faiss)
        if scalar is None:
            continue
        version = next((cell["faiss"] for cell in rows.values()), version)
        shown = " ".join("WORDVECS.json" if flag == args.words else flag for flag in flags)
        parts.append(f"\n## {title[0].upper() + title[1:]}\n\n`kvasir vector bench {shown} --bits {args.bits}`: "
                     f"{scalar['data']}; {scalar['queries']} queries; {scalar['results'][0]['simd']}."
                     f"{notes.get(name, '')}\n" +
                     table(scalar, trellis, rows) + "\n" + margins([scalar, trellis]) + why(scalar, trellis))
        for result in scalar["results"]:
            ratios = {}
            for (bits, kind), cell in rows.items():
                if bits == result["bits"]:
                    ratios[f"build_ratio_{kind}"] = cell["build_seconds"] / result["build_seconds"]
                    ratios[f"query_ratio_{kind}"] = result["queries_per_second"] / cell["queries_per_second"]
            keys = ("bits", "recall_at_1", "recall_at_10", "bytes", "bytes_per_vector", "build_seconds",
                    "queries_per_second")
            summary.setdefault(name, []).append({**{key: result[key] for key in keys}, **ratios})
    words = " --words WORDVECS.json" if args.words else ""
    args.out.parent.mkdir(parents=True, exist_ok=True)
    head = HEAD.format(words=words, version=version, hits=HITS, rounds=args.rounds, processor=processor())
    args.out.write_text(head + "\n".join(parts) + "\n")
    print(json.dumps(summary, indent=1) if args.json else args.out)


if __name__ == "__main__":
    main()
