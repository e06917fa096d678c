"""Optimizers on rows of weights: what a job's optimizer does, for many workers at once.

    sgd     g += b w;  m <- mu m + g;  w -= r m        (Nesterov: w -= r (g + mu m))
    adam    g += b w;  m <- c m + (1-c) g;  v <- d v + (1-d) g^2;  w -= r (m / (1-c^t)) / (sqrt(v / (1-d^t)) + eps)
    adamw   w *= 1 - r b, then as adam without the decay in g
    lars    m <- mu m + s (g + b w);  w -= r m                                     (:mod:`paceline.workload.lars`)
    lamb    m, v as adam;  u = m / sqrt(v) + b w, both corrected;  w -= r s u      (:mod:`paceline.workload.lamb`)

with gradient g, rate r, decay b and the layer's own trust s. Norms (of layers, of all gradients for clipping) are those
of one row; all else acts value by value, so that a row is updated as if it were alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.converge.population import Place
from paceline.workload.optimizer import STATE_COPIES, OptimizerSetting
from paceline.workload.trust import trust_ratio

_BETA1, _BETA2 = 0.9, 0.999  # torch's own
_EPS = {"adam": 1e-8, "adamw": 1e-8, "lamb": 1e-6}
_MOMENTUM, _RATE = "momentum", "rate"
_MOMENTS = ("first moment", "second moment")
_CLIP_EPS = 1e-6  # torch's own

Gradients = Sequence[Tensor | None]  # [rows, *shape] of every parameter that trains; None: nobody used it
_Span = tuple[slice, slice]


class Updates:
    """An optimizer with its state, over the rows of one tensor of weights."""

    def __init__(
        self, setting: OptimizerSetting, weights: Tensor, places: Sequence[Place], *, correct: bool = True
    ) -> None:
        self._setting = setting
        self._weights = weights
        self._places = tuple(places)
        self._correct = correct
        copies = STATE_COPIES[setting.key]
        names = _MOMENTS if copies == 2 else (_MOMENTUM,) if copies else ()
        self.state: dict[str, Tensor] = {name: torch.zeros_like(weights) for name in names}
        self._rate = setting.lr
        self.state[_RATE] = torch.tensor(setting.lr, dtype=torch.float64)  # of the last step

    def rate(self, lr: float) -> None:
        """Set the learning rate of the next step; momentum follows it as ``paceline.train.optimizer.set_rate`` says."""
        old = float(self.state[_RATE])
        if not self._correct and lr not in (old, 0) and _MOMENTUM in self.state:
            self.state[_MOMENTUM].mul_(old / lr)
        self.state[_RATE].fill_(lr)
        self._rate = lr

    def apply(self, first: int, last: int, gradients: Gradients, step: int) -> None:
        """Update some rows; ``step`` counts from 0."""
        with torch.no_grad():
            flat = [None if g is None else g.reshape(last - first, -1) for g in gradients]
            if self._setting.clip_norm is not None:
                flat = _clipped(flat, self._setting.clip_norm)
            for place, gradient in zip(self._places, flat, strict=True):
                if gradient is None:
                    continue
                span = (slice(first, last), slice(place.start, place.stop))
                thin = len(place.shape) <= 1  # gains and biases
                decay = self._setting.weight_decay if self._setting.decay_norm_and_bias or not thin else 0.0
                match self._setting.name:
                    case "sgd":
                        self._sgd(self._weights[span], gradient, span, decay)
                    case "lars":
                        self._lars(self._weights[span], gradient, span, decay, adapt=not thin)
                    case "lamb":
                        self._lamb(self._weights[span], gradient, span, decay, step + 1, adapt=not thin)
                    case _:
                        self._adam(self._weights[span], gradient, span, decay, step + 1)

    def _sgd(self, weights: Tensor, gradient: Tensor, span: _Span, decay: float) -> None:
        setting = self._setting
        if decay:
            gradient = gradient.add(weights, alpha=decay)
        if setting.momentum:
            momentum = self.state[_MOMENTUM][span]
            torch.add(gradient, momentum, alpha=setting.momentum, out=momentum)  # one pass over memory, not two
            gradient = gradient.add(momentum, alpha=setting.momentum) if setting.nesterov else momentum
        weights.add_(gradient, alpha=-self._rate)

    def _adam(self, weights: Tensor, gradient: Tensor, span: _Span, decay: float, count: int) -> None:
        if self._setting.name == "adamw":
            weights.mul_(1 - self._rate * decay)
        elif decay:
            gradient = gradient.add(weights, alpha=decay)
        first, second = self._moments(gradient, span)
        root = second.sqrt().div_((1 - _BETA2**count) ** 0.5).add_(_EPS[self._setting.name])
        weights.addcdiv_(first, root, value=-self._rate / (1 - _BETA1**count))

    def _lars(self, weights: Tensor, gradient: Tensor, span: _Span, decay: float, *, adapt: bool) -> None:
        direction = gradient.add(weights, alpha=decay)
        if adapt:
            norm = _norms(weights)
            direction.mul_(trust_ratio(norm, _norms(gradient) + decay * norm, self._setting.trust))
        if self._setting.momentum:
            direction = self.state[_MOMENTUM][span].mul_(self._setting.momentum).add_(direction)
        weights.add_(direction, alpha=-self._rate)

    def _lamb(self, weights: Tensor, gradient: Tensor, span: _Span, decay: float, count: int, *, adapt: bool) -> None:
        first, second = self._moments(gradient, span)
        root = second.div(1 - _BETA2**count).sqrt_().add_(_EPS["lamb"])
        update = (first / (1 - _BETA1**count)).div_(root).add_(weights, alpha=decay)
        if adapt:
            update.mul_(trust_ratio(_norms(weights), _norms(update)))
        weights.add_(update, alpha=-self._rate)

    def _moments(self, gradient: Tensor, span: _Span) -> tuple[Tensor, Tensor]:
        first, second = (self.state[name][span] for name in _MOMENTS)
        first.lerp_(gradient, 1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        return first, second


def _norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return norms


def _clipped(gradients: Sequence[Tensor | None], norm: float) -> list[Tensor | None]:
    """Return gradients of which each row, as one vector over all parameters, is no longer than ``norm``."""
    there = [_norms(gradient) for gradient in gradients if gradient is not None]
    if not there:
        return list(gradients)
    factor = (norm / (_norms(torch.cat(there, 1)) + _CLIP_EPS)).clamp(max=1.0)
    return [None if gradient is None else gradient * factor for gradient in gradients]
