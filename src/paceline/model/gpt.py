"""GPT-2 style decoders (Radford et al. 2019): pre-norm blocks, learned positions, a tied head.

There is no dropout: large decoders are trained without it today, and attention kernels stay fused.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.model.transformer import TransformerSize


class Attention(nn.Module):
    """Causal self-attention with the queries, keys and values from one matrix."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what every position gathers from itself and those before it."""
        batch, length, width = x.shape
        qkv = self.qkv(x)
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in torch.chunk(qkv, 3, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        gathered: Tensor = self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return gathered


class Block(nn.Module):
    """Attention, then a four times wider layer, each normalised before and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of its input's shape."""
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.down(self.gelu(self.up(self.norm2(x))))
        return out


class GPT(nn.Module):
    """Token numbers ``[batch, length]`` to scores of the next token ``[batch, length, vocabulary]``."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*(Block(size.width, size.heads) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                # What is added to the residual stream starts smaller, by how many terms add up (two a block).
                terms = 2 * size.layers if name.endswith(("project.weight", "down.weight")) else 1
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(terms))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the next token at every position."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        scores: Tensor = self.head(self.norm(self.blocks(x)))
        return scores
