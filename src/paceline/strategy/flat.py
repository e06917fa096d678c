"""A model's weights in flat buffers, one for each type of numbers: what travels when weights are averaged.

weights   [w1] [w2  ] [w3]        anywhere, in any layout; frozen ones and batch norm's statistics are left out
buffer    [w1|w2  |w3]            one piece, filled and emptied by one fused copy
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """The trained weights of one type, and a buffer of their size."""

    parameters: tuple[nn.Parameter, ...]
    buffer: torch.Tensor
    views: tuple[torch.Tensor, ...]  # each parameter's part of the buffer, in its shape

    @torch.no_grad()
    def take(self) -> None:
        """Copy the weights into the buffer."""
        torch._foreach_copy_(self.views, self._weights())

    @torch.no_grad()
    def give(self, keep: float = 0.0) -> None:
        """Let the weights become ``keep w + (1 - keep) buffer``, in place."""
        weights = self._weights()
        if keep == 0.0:
            torch._foreach_copy_(weights, self.views)
            return
        torch._foreach_mul_(weights, keep)
        torch._foreach_add_(weights, self.views, alpha=1 - keep)

    @torch.no_grad()
    def scale(self, factors: Sequence[float]) -> None:
        """Multiply each parameter's part of the buffer by a factor of its own."""
        if len(set(factors)) == 1:
            self.buffer.mul_(factors[0])
        else:
            torch._foreach_mul_(self.views, list(factors))

    def _weights(self) -> list[torch.Tensor]:
        return [_real(parameter) for parameter in self.parameters]


def flat_weights(model: nn.Module) -> tuple[Flat, ...]:
    """Return the trained weights of a model, by type.

    >>> [(len(flat.parameters), flat.buffer.numel()) for flat in flat_weights(nn.Linear(3, 2))]
    [(2, 8)]
    """
    kinds: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            kinds.setdefault((_real(parameter).dtype, parameter.device), []).append(parameter)
    return tuple(_flat(members) for members in kinds.values())


def _flat(members: Sequence[nn.Parameter]) -> Flat:
    weights = [_real(parameter) for parameter in members]
    sizes = [weight.numel() for weight in weights]
    buffer = torch.empty(sum(sizes), dtype=weights[0].dtype, device=weights[0].device)
    views = tuple(part.view(weight.shape) for part, weight in zip(buffer.split(sizes), weights))
    return Flat(tuple(members), buffer, views)


def _real(parameter: nn.Parameter) -> torch.Tensor:
    """Return a parameter's numbers without its history; complex ones as pairs, since Gloo adds no others."""
    weight = parameter.detach()
    return torch.view_as_real(weight) if weight.is_complex() else weight
