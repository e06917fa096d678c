"""single: the plain training step."""

from __future__ import annotations

import torch
from torch import nn

from paceline.strategy.contract import Runner, RunSetting
from paceline.strategy.trainstep import local_step


class SingleRunner(Runner):
    """Forward, backward, optimizer."""

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting

    @property
    def model(self) -> nn.Module:
        """The user's module."""
        return self._setting.model

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Train on one batch and return its loss."""
        return float(local_step(self._setting, inputs, targets))

    def exposed_seconds(self) -> float:
        """There is no communication."""
        return 0.0
