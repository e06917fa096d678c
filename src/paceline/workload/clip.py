"""Gradient clipping by the norm of all gradients together (Pascanu, Mikolov and Bengio 2013)."""

from __future__ import annotations

from typing import Any

import torch


def clip_before_step(optimizer: torch.optim.Optimizer, norm: float) -> None:
    """Have an optimizer shorten the gradients of all its parameters, as one vector, to ``norm`` before each step.

    By then every runner has averaged its workers' gradients, so what is clipped is the global batch's gradient, once,
    whatever the workers and passes. A runner with a part of the model on each worker would clip parts.
    """

    def clip(stepping: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        parameters = [parameter for group in stepping.param_groups for parameter in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, norm)

    optimizer.register_step_pre_hook(clip)
