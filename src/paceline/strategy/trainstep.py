"""Forward and backward under a precision: what every runner does with one batch."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from paceline.strategy.contract import RunSetting
from paceline.workload.precision import OWN, autocast, model_dtype


def forward_backward(
    setting: RunSetting, module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, weight: float = 1.0
) -> torch.Tensor:
    """Add the gradients of ``weight`` times a batch's mean loss to ``.grad`` and return the unweighted loss."""
    if inputs.is_floating_point() and setting.precision != OWN:
        inputs = inputs.to(model_dtype(setting.precision))
    inputs = inputs.to(setting.device, non_blocking=True)
    targets = targets.to(setting.device, non_blocking=True)
    with autocast(setting.precision, setting.device.type):
        loss = cast(torch.Tensor, setting.loss(module(inputs), targets))
    (loss if weight == 1.0 else loss * weight).backward()
    return loss.detach()


def local_step(setting: RunSetting, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Take a step of this worker's own, with its own mean gradient, and return the loss; without samples take none."""
    if not len(inputs):
        return torch.zeros(())
    setting.optimizer.zero_grad(set_to_none=True)
    loss = forward_backward(setting, setting.model, inputs, targets)
    setting.optimizer.step()
    return loss
