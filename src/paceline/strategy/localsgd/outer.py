"""Outer optimizers: what is done with the average of a round's local steps, in place of taking it as it is.

x0 are the weights that the round started from, x the average after it, lr the local rate of the moment:

    slowmo   u <- beta u + (x0 - x) / lr;    x0 <- x0 - alpha lr u              Wang et al. 2020 (arXiv 1910.00643)
    diloco   g = x0 - x;  m <- mu m + g;     x0 <- x0 - alpha (g + mu m)        Douillard et al. 2023 (2311.08105)

and all workers go on from x0. alpha is ``outer_lr``, beta and mu are ``outer_momentum``. With alpha 1 and a momentum of
0 both are local SGD. DiLoCo's is SGD with Nesterov's momentum as torch has it.

Both keep x0 and a momentum, in flat buffers, and work inside the one in which the average arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from paceline.strategy.contract import Plan
from paceline.strategy.flat import Flat
from paceline.strategy.localsgd.plan import outer_constants


class Outer(Protocol):
    """An outer optimizer of one model."""

    def begin(self) -> None:
        """Take the weights as they are for the start of the first round."""
        ...

    def step(self) -> None:
        """Make what the flat buffers hold, the average, into the weights from which all go on."""
        ...


def make_outer(plan: Plan, flats: Sequence[Flat], optimizer: torch.optim.Optimizer) -> Outer | None:
    """Return the outer optimizer that a plan asks for."""
    alpha, momentum = outer_constants(plan.knobs)
    match plan.knobs["outer"]:
        case "slowmo":
            return SlowMo(flats, optimizer, alpha, momentum)
        case "diloco":
            return DiLoCo(flats, alpha, momentum)
        case _:
            return None


class _Anchored:
    """The weights from which a round started, and a momentum; made when the first round starts."""

    def __init__(self, flats: Sequence[Flat]) -> None:
        self._flats = flats
        self._anchors: list[torch.Tensor] = []
        self._momenta: list[torch.Tensor] = []

    def begin(self) -> None:
        """Take the weights as they are for the start of the first round."""
        for flat in self._flats:
            flat.take()
            self._anchors.append(flat.buffer.clone())
            self._momenta.append(torch.zeros_like(flat.buffer))


class SlowMo(_Anchored):
    """Slow momentum on what a round moved, in units of its learning rate."""

    def __init__(self, flats: Sequence[Flat], optimizer: torch.optim.Optimizer, alpha: float, momentum: float) -> None:
        super().__init__(flats)
        self._optimizer = optimizer
        self._alpha, self._momentum = alpha, momentum

    def step(self) -> None:
        """Make the average in the buffers into the weights from which all go on."""
        rates = {id(p): float(group["lr"]) for group in self._optimizer.param_groups for p in group["params"]}
        for flat, anchor, momentum in zip(self._flats, self._anchors, self._momenta):
            lr = [rates.get(id(parameter), 0.0) for parameter in flat.parameters]
            moved = flat.buffer.sub_(anchor)
            flat.scale([-1 / rate if rate else 0.0 for rate in lr])  # at a rate of 0 nothing has moved
            momentum.mul_(self._momentum).add_(moved)
            flat.buffer.copy_(momentum)
            flat.scale([-self._alpha * rate for rate in lr])
            flat.buffer.copy_(anchor.add_(flat.buffer))


class DiLoCo(_Anchored):
    """SGD with Nesterov's momentum, for which what a round moved is the gradient."""

    def __init__(self, flats: Sequence[Flat], alpha: float, momentum: float) -> None:
        super().__init__(flats)
        self._alpha, self._momentum = alpha, momentum

    def step(self) -> None:
        """Make the average in the buffers into the weights from which all go on."""
        for flat, anchor, momentum in zip(self._flats, self._anchors, self._momenta):
            gradient = torch.sub(anchor, flat.buffer, out=flat.buffer)
            momentum.mul_(self._momentum).add_(gradient)
            anchor.add_(gradient, alpha=-self._alpha).add_(momentum, alpha=-self._alpha * self._momentum)
            flat.buffer.copy_(anchor)
