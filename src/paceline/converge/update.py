"""Optimizers on rows of weights: what torch's SGD, Adam and AdamW do, for many workers at once.

    SGD     g += wd w;  m <- mu m + g;  w -= lr m        (Nesterov: w -= lr (g + mu m))
    Adam    g += wd w;  m <- b1 m + (1-b1) g;  v <- b2 v + (1-b2) g^2
            w -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
    AdamW   w *= 1 - lr wd, then as Adam without the decay in g

They act value by value, so that a row is updated as if it were alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.converge.population import Place
from paceline.workload.optimizer import OptimizerSetting

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # torch's own

Gradients = Sequence[Tensor | None]  # [rows, *shape] of every parameter that trains; None: nobody used it


class Updates:
    """An optimizer with its state, over the rows of one tensor of weights."""

    def __init__(self, setting: OptimizerSetting, weights: Tensor, places: Sequence[Place]) -> None:
        self._setting = setting
        self._weights = weights
        self._places = tuple(places)
        names = {"sgd-plain": (), "sgd": ("momentum",)}.get(setting.key, ("first moment", "second moment"))
        self.state: dict[str, Tensor] = {name: torch.zeros_like(weights) for name in names}

    def apply(self, first: int, last: int, gradients: Gradients, lr: float, step: int) -> None:
        """Update some rows; ``step`` counts from 0."""
        with torch.no_grad():
            for place, gradient in zip(self._places, gradients, strict=True):
                if gradient is None:
                    continue
                span = (slice(first, last), slice(place.start, place.stop))
                flat = gradient.reshape(last - first, -1)
                if self._setting.name == "sgd":
                    self._sgd(self._weights[span], flat, span, lr)
                else:
                    self._adam(self._weights[span], flat, span, lr, step + 1)

    def _sgd(self, weights: Tensor, gradient: Tensor, span: tuple[slice, slice], lr: float) -> None:
        setting = self._setting
        if setting.weight_decay:
            gradient = gradient.add(weights, alpha=setting.weight_decay)
        if setting.momentum:
            momentum = self.state["momentum"][span]
            torch.add(gradient, momentum, alpha=setting.momentum, out=momentum)  # one pass over memory, not two
            gradient = gradient.add(momentum, alpha=setting.momentum) if setting.nesterov else momentum
        weights.add_(gradient, alpha=-lr)

    def _adam(self, weights: Tensor, gradient: Tensor, span: tuple[slice, slice], lr: float, count: int) -> None:
        decay = self._setting.weight_decay
        if self._setting.name == "adamw":
            weights.mul_(1 - lr * decay)
        elif decay:
            gradient = gradient.add(weights, alpha=decay)
        first, second = self.state["first moment"][span], self.state["second moment"][span]
        first.lerp_(gradient, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        root = second.sqrt().div_((1 - _BETA2**count) ** 0.5).add_(_EPS)
        weights.addcdiv_(first, root, value=-lr / (1 - _BETA1**count))
