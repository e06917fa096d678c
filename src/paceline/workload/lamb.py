"""LAMB: Adam in which every layer's step is in proportion to its weights (You et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from paceline.workload.trust import trust_ratio


class Lamb(torch.optim.Optimizer):
    """Layer-wise adaptive moments.

    With weights w, gradient g, decay b, rate r, betas (c, d) and t steps done, each tensor has

        m <- c m + (1 - c) g        v <- d v + (1 - d) g g
        u = (m / (1 - c^t)) / (sqrt(v / (1 - d^t)) + eps) + b w
        w <- w - r s u,  s = |w| / |u|        1 where a norm is 0, and in groups with adapt = False

    as the paper's algorithm 2 with phi(x) = x; gains and biases come in a group that is not adapted.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapt": True})

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
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())  # on the CPU: reading it must not wait for a device
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        state["step"] += 1
        steps, (first, second) = float(state["step"]), group["betas"]
        mean = state["exp_avg"].lerp_(gradient, 1 - first)
        square = state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = square.div(1 - second**steps).sqrt_().add_(group["eps"])
        update = (mean / (1 - first**steps)).div_(root)
        if group["weight_decay"]:
            update.add_(weight, alpha=group["weight_decay"])
        if group["adapt"]:
            update.mul_(trust_ratio(torch.linalg.vector_norm(weight), torch.linalg.vector_norm(update)))
        weight.add_(update, alpha=-group["lr"])
