# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""Which caches of which Python packages are measured, as data. Read by the driver and inside the environment.

Several packages bring a module of the same name (`turboquant`) or need different versions of transformers, so each is
installed into a folder of its own and put on the path of the one process that measures it.
"""

from typing import NamedTuple

# transformers changed what it asks of a cache between these (the arguments of `update` and `get_mask_sizes`), and each
# package runs with one of them only.
TRANSFORMERS = {
    "5.24.0": ["transformers==5.24.0", "tokenizers==0.23.3"],
    "5.8.0": ["transformers==5.8.0", "tokenizers==0.22.2"],
    "5.2.0": ["transformers==5.2.0", "tokenizers==0.22.2"],
}


class Peer(NamedTuple):
    name: str  # the pinned package, or what it is part of
    version: str
    transformers: str
    windows: tuple  # which of KVASIR's rows, by (sink, recent), stand beside it
    packages: list  # beside transformers, installed without their dependencies
    methods: dict  # name of a method -> (adapter in caches.py, its settings)


PEERS = {
    "hf": Peer("transformers QuantizedCache", "5.24.0", "5.24.0", (0, 0), [], {
        "quanto 4-bit": ("hf_quantized", dict(backend="quanto", nbits=4)),
        "quanto 4-bit, keys per channel": ("hf_quantized", dict(backend="quanto", nbits=4, axis_key=-1)),
        "quanto 2-bit": ("hf_quantized", dict(backend="quanto", nbits=2)),
        "quanto 2-bit, keys per channel": ("hf_quantized", dict(backend="quanto", nbits=2, axis_key=-1)),
        "quanto 2-bit, window in one call": ("hf_quantized", dict(backend="quanto", nbits=2)),
        "HQQ 4-bit": ("hf_quantized", dict(backend="hqq", nbits=4, axis_key=1, axis_value=1)),
        "HQQ 2-bit": ("hf_quantized", dict(backend="hqq", nbits=2, axis_key=1, axis_value=1)),
        "fp8": ("hf_quantized", dict(backend="fp8")),
    }),
    "turboquant": Peer("turboquant", "0.2.0", "5.8.0", (0, 64), ["turboquant==0.2.0"], {
        "4-bit": ("turboquant", dict(bits=4)),
        "3-bit": ("turboquant", dict(bits=3)),
        "2-bit": ("turboquant", dict(bits=2)),
    }),
    "turboquant-kv": Peer("turboquant-kv", "1.0.0", "5.2.0", (0, 0), ["turboquant-kv==1.0.0", "triton==3.9.0"], {
        "4-bit": ("turboquant_kv", dict(bits=4)),
        "3-bit": ("turboquant_kv", dict(bits=3)),
        "2-bit": ("turboquant_kv", dict(bits=2)),
    }),
    "turboquant-pro": Peer("turboquant-pro", "1.9.1", "5.8.0", (0, 64), ["turboquant-pro==1.9.1"], {
        "K4 V4, window 512 (its default)": ("turboquant_pro", dict()),
        "K4 V4, window 128": ("turboquant_pro", dict(hot_window=128)),
        "K4 V2, window 128": ("turboquant_pro", dict(hot_window=128, value_bits=2)),
    }),
    "tiny-turboquant": Peer("tiny-turboquant", "0.18.0", "5.8.0", (0, 64), ["tiny-turboquant==0.18.0"], {
        "4-bit": ("tiny_turboquant", dict(bits=4)),
        "3-bit": ("tiny_turboquant", dict(bits=3)),
        "2-bit": ("tiny_turboquant", dict(bits=2)),
    }),
    "kvpress": Peer("kvpress", "0.5.5", "5.2.0", (0, 0), ["kvpress==0.5.5"], {
        "SnapKV, half removed": ("press", dict(press="SnapKVPress", compression_ratio=0.5)),
        "SnapKV, three quarters removed": ("press", dict(press="SnapKVPress", compression_ratio=0.75)),
        "ExpectedAttention, half removed": ("press", dict(press="ExpectedAttentionPress", compression_ratio=0.5)),
        "StreamingLLM, half removed": ("press", dict(press="StreamingLLMPress", compression_ratio=0.5)),
    }),
}
FULL = "full cache"  # transformers' own, the base
ONE_CALL = "in one call"  # a method whose name holds this gets the window in one piece

# What Kvasir runs beside them: (sink, recent) in 16 bits, codecs, and whose windows these are. A package that keeps 128
# newest tokens counts those of the piece it is given, so 64 of them lie in the past; Kvasir's `recent` is past alone.
KVASIR = [
    (0, 0, ["q8", "kivi4", "turbo4.5", "turbo4", "turbo3", "kivi2", "turbo2"],
     "no window, as transformers and turboquant-kv"),
    (0, 64, ["kivi4", "turbo4.5", "turbo4", "turbo3", "kivi2", "turbo2"],
     "128 newest, as turboquant and turboquant-pro"),
    (16, 64, ["turbo4.5", "turbo4", "turbo3", "turbo2"], "16 first, 128 newest"),
]
