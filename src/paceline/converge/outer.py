"""Outer optimizers: what happens to the average of the workers' weights before they take it.

    x: weights that the round began with, a: their average at its end, u: the outer optimizer's own memory

    none      x <- a
    slowmo    u <- beta u + (x - a) / lr;  x <- x - alpha lr u                       (Wang et al. 2019)
    diloco    g = x - a;  u <- mu u + g;  x <- x - eta (g + mu u)                     (Douillard et al. 2023)

``lr`` is the rate of the round's last step. alpha and eta are the plan's ``outer_lr``, beta and mu its
``outer_momentum``; as the runtime has it (:mod:`paceline.strategy.localsgd.outer`), on rows of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from paceline.strategy.contract import Knob
from paceline.strategy.localsgd.plan import outer_constants


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

    def __init__(self, start: Tensor, alpha: float, beta: float) -> None:
        self._alpha, self._beta = alpha, beta
        self.state = {"anchor": start.clone(), "momentum": torch.zeros_like(start)}

    def step(self, average: Tensor, lr: float) -> Tensor:
        """Move the anchor by the slow momentum and return it."""
        anchor, slow = self.state["anchor"], self.state["momentum"]
        slow.mul_(self._beta)
        if lr > 0:  # at a rate of 0 nobody has moved
            slow.add_(anchor - average, alpha=1 / lr)
        return anchor.add_(slow, alpha=-self._alpha * lr)


class DiLoCo:
    """Nesterov momentum over rounds."""

    def __init__(self, start: Tensor, eta: float, mu: float) -> None:
        self._eta, self._mu = eta, mu
        self.state = {"anchor": start.clone(), "momentum": torch.zeros_like(start)}

    def step(self, average: Tensor, lr: float) -> Tensor:
        """Move the anchor by the outer gradient with momentum and return it."""
        anchor, momentum = self.state["anchor"], self.state["momentum"]
        gradient = anchor - average
        momentum.mul_(self._mu).add_(gradient)
        return anchor.sub_(gradient.add_(momentum, alpha=self._mu), alpha=self._eta)


def make_outer(knobs: Mapping[str, Knob], start: Tensor) -> Outer:
    """Return the outer optimizer that a plan's knobs ask for; it starts from the given weights."""
    name = knobs.get("outer", "none")
    if name == "none":
        return NoOuter()
    rate, momentum = outer_constants(knobs)
    return SlowMo(start, rate, momentum) if name == "slowmo" else DiLoCo(start, rate, momentum)
