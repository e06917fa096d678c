"""Outer optimizers: what happens to the average of the workers' weights before they take it.

    x: weights that the round began with, a: their average at its end, u: the outer optimizer's own memory

    none      x <- a
    slowmo    u <- beta u + (x - a) / lr;  x <- x - alpha lr u                       (Wang et al. 2019)
    diloco    g = x - a;  u <- mu u + g;  x <- x - eta (g + mu u)                     (Douillard et al. 2023)

``lr`` is the rate of the round's last step. Constants are those of the papers and of fairscale.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

SLOW_MOMENTUM = 0.5  # beta
SLOW_RATE = 1.0  # alpha
OUTER_MOMENTUM = 0.9  # mu
OUTER_RATE = 0.7  # eta


class Outer(Protocol):
    """One outer optimizer with its state."""

    state: dict[str, Tensor]

    def step(self, average: Tensor, lr: float) -> Tensor:
        """Return the weights that all workers go on from."""
        ...


class NoOuter:
    """The average itself."""

    def __init__(self) -> None:
        self.state: dict[str, Tensor] = {}

    def step(self, average: Tensor, lr: float) -> Tensor:
        """Return the average."""
        return average


class SlowMo:
    """Momentum over rounds, in units of the learning rate."""

    def __init__(self, start: Tensor) -> None:
        self.state = {"anchor": start.clone(), "slow momentum": torch.zeros_like(start)}

    def step(self, average: Tensor, lr: float) -> Tensor:
        """Move the anchor by the slow momentum and return it."""
        anchor, slow = self.state["anchor"], self.state["slow momentum"]
        slow.mul_(SLOW_MOMENTUM)
        if lr > 0:  # at a rate of 0 nobody has moved
            slow.add_(anchor - average, alpha=1 / lr)
        return anchor.add_(slow, alpha=-SLOW_RATE * lr)


class DiLoCo:
    """Nesterov momentum over rounds."""

    def __init__(self, start: Tensor) -> None:
        self.state = {"anchor": start.clone(), "outer momentum": torch.zeros_like(start)}

    def step(self, average: Tensor, lr: float) -> Tensor:
        """Move the anchor by the outer gradient with momentum and return it."""
        anchor, momentum = self.state["anchor"], self.state["outer momentum"]
        gradient = anchor - average
        momentum.mul_(OUTER_MOMENTUM).add_(gradient)
        return anchor.sub_(gradient.add_(momentum, alpha=OUTER_MOMENTUM), alpha=OUTER_RATE)


def make_outer(name: str, start: Tensor) -> Outer:
    """Return an outer optimizer that starts from weights."""
    if name == "slowmo":
        return SlowMo(start)
    return DiLoCo(start) if name == "diloco" else NoOuter()
