"""The ratio by which layer-wise optimizers scale a tensor's step."""

from __future__ import annotations

import torch
from torch import Tensor


def trust_ratio(weights: Tensor, update: Tensor, coefficient: float = 1.0) -> Tensor:
    """Return ``coefficient * weights / update`` of two norms, or 1 where either is 0; nothing waits for a device.

    >>> [float(trust_ratio(torch.tensor(weights), torch.tensor(2.0))) for weights in (3.0, 0.0)]
    [1.5, 1.0]
    """
    usable = (weights > 0) & (update > 0)
    return torch.where(usable, coefficient * weights / torch.where(usable, update, 1.0), 1.0)
