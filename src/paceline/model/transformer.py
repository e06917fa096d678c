"""The sizes of the suite's transformers, as plain numbers: listing them must not import torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransformerSize:
    """Layers, width, attention heads, vocabulary, and the longest sequence (``context``)."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    context: int


# Radford et al. 2019 for the GPT-2 family; the 13 B decoder has the shape of GPT-3's (Brown et al. 2020,
# table 2.1). gpt-nano reads bytes and is ours: it learns text on a CPU in minutes.
GPT_SIZES: dict[str, TransformerSize] = {
    "gpt-nano": TransformerSize(4, 128, 4, 256, 256),
    "gpt2": TransformerSize(12, 768, 12, 50257, 1024),
    "gpt2-medium": TransformerSize(24, 1024, 16, 50257, 1024),
    "gpt2-large": TransformerSize(36, 1280, 20, 50257, 1024),
    "gpt2-xl": TransformerSize(48, 1600, 25, 50257, 1024),
    "gpt-13b": TransformerSize(40, 5120, 40, 50257, 2048),
}
# Devlin et al. 2018, with the uncased vocabulary.
BERT_SIZES: dict[str, TransformerSize] = {
    "bert-base": TransformerSize(12, 768, 12, 30522, 512),
    "bert-large": TransformerSize(24, 1024, 16, 30522, 512),
}
