"""LARS: momentum SGD in which every layer's step is in proportion to its weights (You, Gitman and Ginsburg 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from paceline.workload.trust import trust_ratio


class Lars(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

    With weights w, gradient g, momentum m, weight decay b, rate r and the coefficient ``trust`` t, each tensor has

        s = t |w| / (|g| + b |w|)        1 where a norm is 0, and in groups with adapt = False
        u <- m u + s (g + b w)
        w <- w - r u

    The paper has r inside u; outside, as torch's SGD has it, momentum needs no correction when the rate changes (Goyal
    et al. 2017, remark 2), and at a constant rate both are the same. Gains and biases are not adapted in practice: they
    come in a group of their own.

    >>> w = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    >>> w.grad = torch.tensor([[0.0, 2.0]])
    >>> Lars([w], lr=1.0, trust=0.1).step()  # 0.1 * 5 / 2 = 0.25
    >>> w.tolist()
    [[3.0, 3.5]]
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        constants = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "adapt": True}
        super().__init__(params, constants)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return loss

    def _move(self, weight: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
        decay = group["weight_decay"]
        direction = gradient.add(weight, alpha=decay) if decay else gradient.clone()
        if group["adapt"]:
            norm = torch.linalg.vector_norm(weight)
            direction.mul_(trust_ratio(norm, torch.linalg.vector_norm(gradient) + decay * norm, group["trust"]))
        if group["momentum"]:
            state = self.state[weight]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = direction
            else:
                direction = state["momentum_buffer"].mul_(group["momentum"]).add_(direction)
        weight.add_(direction, alpha=-group["lr"])
