"""BERT encoders (Devlin et al. 2018): post-norm blocks, a head for masked tokens tied to the embedding.

The next-sentence head and its pooler are left out, as in all later recipes. There is no dropout, as in
``gpt.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.model.transformer import TransformerSize

_EPSILON = 1e-12  # of the layer norms, as released with the paper


class Attention(nn.Module):
    """Self-attention in which every position sees every other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return what every position gathers from all."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        gathered: Tensor = self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return gathered


class Block(nn.Module):
    """Attention, then a four times wider layer, each added to its input and normalised after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width, eps=_EPSILON)
        self.up = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, eps=_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of its input's shape."""
        x = self.norm1(x + self.attention(x))
        out: Tensor = self.norm2(x + self.down(self.gelu(self.up(x))))
        return out


class BERT(nn.Module):
    """Token numbers ``[batch, length]`` to scores of the true token ``[batch, length, vocabulary]``.

    All tokens are of the first of the two segment types.
    """

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.segments = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width, eps=_EPSILON)
        self.blocks = nn.Sequential(*(Block(size.width, size.heads) for _ in range(size.layers)))
        self.transform = nn.Sequential(
            nn.Linear(size.width, size.width),
            nn.GELU(),
            nn.LayerNorm(size.width, eps=_EPSILON),
        )
        self.head = nn.Linear(size.width, size.vocabulary)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the token at every position."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.tokens(tokens) + self.positions(places) + self.segments(torch.zeros_like(tokens)))
        scores: Tensor = self.head(self.transform(self.blocks(x)))
        return scores
