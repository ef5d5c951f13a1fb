# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""One adapter per kind of cache: how it is made, and which of its parts take memory. Runs inside the environment."""

import contextlib

import numpy
import torch


class Adapter:
    """A cache ready for a forward pass, and what has to be known to count its bytes."""

    def __init__(self, cache, copies=(), always_f32=(), code_bits=None):
        self.cache = cache
        self.copies = set(copies)  # attributes that repeat, expanded, what the codes hold
        self.always_f32 = set(always_f32)  # f32 in a 16-bit model too
        self.code_bits = code_bits or {}  # attribute -> bits of a code, where codes are not packed

    def prefill(self, model, tokens):
        """Reads the first half of the window in the package's own way; None for the ordinary way, in pieces."""
        return None


class Evicting(Adapter):
    """kvpress: the first half is read at once and thinned out afterwards, the second half is read as usual."""

    def __init__(self, cache, press):
        super().__init__(cache)
        self.press = press

    def prefill(self, model, tokens):
        with self.press(model):
            model.model(input_ids=tokens, past_key_values=self.cache)
        return tokens.shape[1]


def hf_quantized(model, **settings):
    from transformers import QuantizedCache
    return Adapter(QuantizedCache(config=model.config, **settings))


def turboquant(model, bits):
    from turboquant.cache import TurboQuantCache
    return Adapter(TurboQuantCache(bits=bits), copies=["keys", "values"], always_f32=["_key_norms", "_value_norms"],
                   code_bits={"_key_indices": bits, "_value_indices": bits})


def turboquant_kv(model, bits):
    from turboquant import TurboQuantProd
    from turboquant.hf_cache import turboquant_dynamic_cache
    quantizer = TurboQuantProd(bits=bits, head_dim=head_dim(model), device="cpu", seed=0)
    parts = [side + part for side in "kv" for part in ("_norm", "_sign", "_gamma")]
    codes = {"k_idx": bits - 1, "v_idx": bits - 1, "k_sign": 1, "v_sign": 1}
    return Adapter(turboquant_dynamic_cache(model.config, quantizer), always_f32=parts, code_bits=codes)


def turboquant_pro(model, **settings):
    from turboquant_pro import TurboQuantCache
    return Adapter(TurboQuantCache(**settings))


def tiny_turboquant(model, bits):
    from tiny_turboquant import TinyKVCache
    return Adapter(TinyKVCache.for_model(model, bits=bits), copies=["keys", "values"])


def press(model, press, compression_ratio):
    import kvpress
    from transformers import DynamicCache
    return Evicting(DynamicCache(), getattr(kvpress, press)(compression_ratio=compression_ratio))


def full(model):
    from transformers import DynamicCache
    return Adapter(DynamicCache())


def head_dim(model):
    config = model.config
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


# Attributes that lead to what all layers share (rotations, codebooks), not to what a token costs.
SHARED = {"quantizer", "_kq", "_vq", "optimizer", "qtype", "layer_class_to_replicate", "config"}


class Memory:
    """Bytes of everything that a cache's layers hold. Floats that follow the model's type count as 16 bits, since that
    is what they are in a model as it is used; the models here are F32 only for exactness."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.packed = self.stored = self.held = 0.0
        self.seen = set()
        for layer in adapter.cache.layers:
            self.visit(layer, "", False)

    def add(self, name, copy, elements, width, floating):
        stored = elements * (2 if floating and width == 4 and name not in self.adapter.always_f32 else width)
        self.held += stored
        if copy:
            return
        self.stored += stored
        bits = self.adapter.code_bits.get(name)
        self.packed += stored if bits is None else elements * bits / 8

    def visit(self, thing, name, copy):
        if id(thing) in self.seen or thing is None or isinstance(thing, (str, bytes, int, float, bool, type)):
            return
        self.seen.add(id(thing))
        copy = copy or name in self.adapter.copies
        if isinstance(thing, torch.Tensor):
            if hasattr(thing, "__tensor_flatten__"):
                for part in thing.__tensor_flatten__()[0]:
                    self.visit(getattr(thing, part), name, copy)
            else:
                self.add(name, copy, thing.numel(), thing.element_size(), thing.dtype == torch.float32)
        elif isinstance(thing, numpy.ndarray):
            self.add(name, copy, thing.size, thing.itemsize, False)
        elif isinstance(thing, dict):
            for key, value in thing.items():
                self.visit(value, str(key), copy)
        elif isinstance(thing, (list, tuple)):
            for value in thing:
                self.visit(value, name, copy)
        elif hasattr(thing, "__dict__"):
            for key, value in vars(thing).items():
                if key not in SHARED:
                    self.visit(value, key, copy)


@contextlib.contextmanager
def quiet():
    """Packages print progress and advice; only the result belongs on standard output."""
    import sys
    with contextlib.redirect_stdout(sys.stderr):
        yield
