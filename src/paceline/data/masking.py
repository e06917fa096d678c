"""Masking tokens for encoders: the same positions of a sample, whatever batch or worker it lands in."""

from __future__ import annotations

import torch
from torch import Tensor

SHARE = 0.15  # Devlin et al. 2018, section 3.1
_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407  # Knuth's MMIX generator


def mask(tokens: Tensor, numbers: Tensor, blank: int, seed: int) -> Tensor:
    """Return tokens ``[batch, length]`` with 15 % of the positions set to ``blank``.

    Which ones depends on the sample's number, the position and the seed only (a hash, not a generator: a
    generator's draws would depend on what else is in the batch).
    """
    length = tokens.shape[1]
    x = numbers[:, None] * length + torch.arange(length) + (seed % (1 << 20)) * (1 << 40)
    for _ in range(2):  # int64 wraps around; only middle bits are used, where a sign makes no difference
        x = x * _MULTIPLIER + _INCREMENT
        x = x ^ (x >> 29)
    return torch.where(((x >> 24) & 0xFFFF) < round(SHARE * 65536), blank, tokens)
