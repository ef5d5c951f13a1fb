# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Measures caches of one package on one window of text, and prints one JSON object a line. Runs inside the environment:

    measure.py FOLDER --gguf FILE --text FILE --context N --piece N      fills FOLDER: weights, tokens, base logits
    measure.py FOLDER --context N --piece N --peer KEY --methods A B       measures

Reading a GGUF takes transformers half a minute, so it is done once; the weights in FOLDER are the same numbers.
"""

import argparse
import json
import os
import pathlib
import sys
import time
import traceback

sys.setdlopenflags(os.RTLD_LAZY)  # see environment.py: CUDA's libraries are empty here
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import numpy  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import caches  # noqa: E402
from catalogue import FULL, ONE_CALL, PEERS  # noqa: E402
from window import read_window  # noqa: E402

torch.set_grad_enabled(False)


class Score:
    """Divergence of the full vocabulary, position by position, in double precision."""

    def __init__(self, base):
        self.base = base
        self.kld, self.nll, self.same = [], [], []

    def add(self, first_row, logits, targets):
        test = torch.log_softmax(logits.double(), dim=-1)
        if not torch.isfinite(test).all():
            raise ValueError("the model's logits hold NaN or infinity")
        rows = numpy.array(self.base[first_row:first_row + len(targets)])
        base = torch.log_softmax(torch.from_numpy(rows).double(), dim=-1)
        self.kld += (base.exp() * (base - test)).sum(-1).tolist()
        self.nll += (-test[torch.arange(len(targets)), targets]).tolist()
        self.same += (base.argmax(-1) == test.argmax(-1)).tolist()

    def summary(self):
        kld = numpy.array(self.kld)
        return {"kld": kld.mean(), "kld_se": kld.std() / (len(kld) - 1) ** 0.5, "kld_p99": numpy.quantile(kld, 0.99),
                "ppl": float(numpy.exp(numpy.mean(self.nll))), "top1": float(numpy.mean(self.same)),
                "tokens": len(kld)}


def run(model, adapter, tokens, piece, take):
    """Feeds the window in pieces, so that each one attends to what the cache made of those before it."""
    length = tokens.shape[1]
    half = length // 2
    first = adapter.prefill(model, tokens[:, :half]) or 0
    while first < length:
        last = min(first + piece, length)
        # An evicting cache is shorter than the text; positions are those of the text.
        positions = torch.arange(first, last)[None]
        hidden = model.model(input_ids=tokens[:, first:last], past_key_values=adapter.cache, use_cache=True,
                             position_ids=positions).last_hidden_state
        scored = range(max(first, half), min(last, length - 1))  # nothing follows the last token
        if scored:
            logits = model.lm_head(hidden[0, scored[0] - first:scored[-1] + 1 - first]).float()
            take(scored[0] - half, logits, tokens[0, scored[0] + 1:scored[-1] + 2])
        first = last


def measure(model, tokens, piece, base, adapter):
    score = Score(base)
    start = time.time()
    run(model, adapter, tokens, piece, score.add)
    config = model.config
    values = 2 * config.num_hidden_layers * config.num_key_value_heads * caches.head_dim(model) * tokens.shape[1]
    memory = caches.Memory(adapter)
    return {**score.summary(), "seconds": time.time() - start,
            **{f"bits_{kind}": 8 * getattr(memory, kind) / values for kind in ("packed", "stored", "held")}}


def write_base(model, tokens, piece, path):
    rows = tokens.shape[1] // 2 - 1
    logits = numpy.lib.format.open_memmap(path, mode="w+", dtype=numpy.float32, shape=(rows, model.config.vocab_size))

    def keep(first_row, part, targets):
        logits[first_row:first_row + len(part)] = part.numpy()

    run(model, caches.full(model), tokens, piece, keep)
    logits.flush()


def save(model, folder):
    """As save_pretrained does, which refuses whatever came from a GGUF."""
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps(config))
    weights = {name: weight.contiguous() for name, weight in model.state_dict().items()}
    if config.get("tie_word_embeddings"):
        weights.pop("lm_head.weight", None)
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def fill(folder, gguf, text, context, piece, base):
    window = read_window(gguf, text, context)
    parent, name = os.path.split(gguf)
    model = transformers.AutoModelForCausalLM.from_pretrained(parent, gguf_file=name, dtype=torch.float32).eval()
    save(model, folder)
    write_base(model, torch.tensor([window]), piece, base)
    (folder / f"window-{context}.json").write_text(json.dumps(window))


def outcome(model, tokens, piece, base, peer, method):
    if method == FULL:
        return measure(model, tokens, piece, base, caches.full(model))
    adapter, settings = PEERS[peer].methods[method]
    piece = tokens.shape[1] if ONE_CALL in method else piece
    try:
        return measure(model, tokens, piece, base, getattr(caches, adapter)(model, **settings))
    except Exception as error:  # whatever a package dies of is its result
        traceback.print_exc()
        line = " ".join(str(error).split())
        return {"error": f"{type(error).__name__}: {line}"[:300]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gguf")
    parser.add_argument("--text")
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--piece", type=int, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--peer")
    parser.add_argument("--methods", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    folder, context, piece = arguments.folder, arguments.context, arguments.piece
    base = folder / f"base-{context}.npy"
    with caches.quiet():
        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        if arguments.gguf:
            fill(folder, arguments.gguf, arguments.text, context, piece, base)
        tokens = torch.tensor([json.loads((folder / f"window-{context}.json").read_text())])
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        logits = numpy.load(base, mmap_mode="r")
    for method in arguments.methods or [FULL]:
        with caches.quiet():
            result = outcome(model, tokens, piece, logits, arguments.peer, method)
        print(json.dumps({"method": method, **result, "transformers": transformers.__version__,
                          "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
