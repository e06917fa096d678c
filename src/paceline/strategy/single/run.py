"""single: the plain training step."""

from __future__ import annotations

import torch
from torch import nn

from paceline.strategy.contract import RunSetting
from paceline.strategy.trainstep import forward_backward


class SingleRunner:
    """Forward, backward, optimizer."""

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting

    @property
    def model(self) -> nn.Module:
        """The user's module."""
        return self._setting.model

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Train on one batch and return its loss."""
        self._setting.optimizer.zero_grad(set_to_none=True)
        loss = forward_backward(self._setting, self._setting.model, inputs, targets)
        self._setting.optimizer.step()
        return float(loss)

    def exposed_seconds(self) -> float:
        """There is no communication."""
        return 0.0
