# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
"""The first window of a text in the tokens of a GGUF model, as `kvasir eval kld` cuts it. Runs inside the environment.

Built from the vocabulary and merges in the file rather than by transformers' conversion, which guesses the kind of
tokenizer from the model's name. run.py compares perplexities, so a token that differs does not go unnoticed."""

import gguf
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

QWEN2_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
               r"\s+(?!\S)|\s+")


def words_of(kind):
    byte_level = pre_tokenizers.ByteLevel
    if kind == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                        byte_level(add_prefix_space=False)])
    if kind == "qwen2":
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2_WORDS), "isolated"),
                                        byte_level(add_prefix_space=False, use_regex=False)])
    raise ValueError(f"texts for a tokenizer of kind {kind!r} are not cut here; smollm and qwen2 are")


def read_window(model, text, context):
    fields = gguf.GGUFReader(model).fields

    def value(key, default=None):
        field = fields.get("tokenizer.ggml." + key)
        return default if field is None else field.contents()

    if value("model") != "gpt2":
        raise ValueError(f"{model} has a tokenizer of kind {value('model')!r}; only byte-level BPE is read here")
    vocabulary = {token: index for index, token in enumerate(value("tokens"))}
    merges = [tuple(merge.split(" ")) for merge in value("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = words_of(value("pre"))
    with open(text, encoding="utf-8", newline="") as file:
        start = file.read(16 * context)
    tokens = tokenizer.encode(start).ids
    if len(tokens) < context:
        raise ValueError(f"{text} has {len(tokens)} tokens at its start, the window takes {context}")
    window = tokens[:context]
    if value("add_bos_token", False):
        window[0] = value("bos_token_id")
    return window
