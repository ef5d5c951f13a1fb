# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""One faiss index on the vectors that `kvasir vector bench --save-data` wrote; prints JSON. Runs inside the environment
of bench/vector.py:  vector_faiss.py FOLDER pq|pqfs|tqmse|rabitq BITS HITS ROUNDS"""

import json
import pathlib
import statistics
import sys
import time

import faiss
import numpy


def read_fvecs(path):
    words = numpy.fromfile(path, dtype=numpy.int32)
    return numpy.ascontiguousarray(words.reshape(-1, words[0] + 1)[:, 1:]).view(numpy.float32)


def make(kind, dim, bits):
    """A fresh index, its name, and the bytes that it keeps of each vector; None if it has no such setting."""
    product = faiss.METRIC_INNER_PRODUCT
    parts = dim * bits // 8
    if kind == "pq":
        if dim % parts:
            return None
        return faiss.IndexPQ(dim, parts, 8, product), f"faiss PQ{parts}x8", parts
    if kind == "pqfs":
        if dim % (2 * parts):
            return None
        return faiss.IndexPQFastScan(dim, 2 * parts, 4, product), f"faiss PQ{2 * parts}x4 fast-scan", parts
    if kind == "tqmse":
        codes = faiss.IndexScalarQuantizer(dim, getattr(faiss.ScalarQuantizer, f"QT_{bits}bit_tqmse"), product)
        rotated = faiss.IndexPreTransform(faiss.RandomRotationMatrix(dim, dim), codes)
        return rotated, f"faiss SQ tqmse {bits} bit", codes.code_size
    if kind == "rabitq":
        codes = faiss.IndexRaBitQ(dim, product, bits)
        return codes, f"faiss RaBitQ {bits} bit", codes.code_size
    raise SystemExit(f"no index kind '{kind}'")


def timed(run):
    start = time.process_time()  # one thread: what it would take on a machine without neighbours
    run()
    return time.process_time() - start


def main():
    folder, kind, bits, hits, rounds = pathlib.Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
    faiss.omp_set_num_threads(1)
    base, queries = read_fvecs(folder / "base.fvecs"), read_fvecs(folder / "queries.fvecs")
    made = make(kind, base.shape[1], bits)
    if made is None:
        print(json.dumps({"faiss": faiss.__version__, "unsupported": f"{kind} with {bits} bits of {base.shape[1]}"}))
        return
    index, name, bytes_per_vector = made

    def build():
        index.train(base)
        index.add(base)

    build_seconds = timed(build)
    if build_seconds < 10:  # quick ones again, as ours
        times = [build_seconds]
        for _ in range(rounds - 1):
            index = make(kind, base.shape[1], bits)[0]
            times.append(timed(build))
        build_seconds = statistics.median(times)
    found, times = None, []

    def search():
        nonlocal found
        found = index.search(queries, hits)[1]

    index.search(queries[:1], hits)
    while len(times) < rounds and sum(times) < 60:  # the slow ones need no median
        times.append(timed(search))
    exact_index = faiss.IndexFlatIP(base.shape[1])
    exact_index.add(base)
    exact = exact_index.search(queries, hits)[1]
    curve = {str(k): float((found[:, :k] == exact[:, :1]).any(axis=1).mean()) for k in (1, 2, 4, 8, 16, 32, 64)}
    print(json.dumps({
        "faiss": faiss.__version__, "name": name, "bytes_per_vector": bytes_per_vector, "build_seconds": build_seconds,
        "queries_per_second": len(queries) / statistics.median(times),
        "recall_at_1": float((found[:, 0] == exact[:, 0]).mean()),
        "recall_1_at": curve,
        "recall_at_10": float(numpy.mean([len(set(f) & set(e)) / 10 for f, e in zip(found[:, :10], exact[:, :10])]))}))


if __name__ == "__main__":
    main()
