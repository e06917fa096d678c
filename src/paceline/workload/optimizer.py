"""Optimizers by name: how torch makes them, and the state they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch
    from torch import nn

OptimizerName = Literal["sgd", "adam", "adamw"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("sgd", "adam", "adamw")
# Values kept for each parameter between steps; a profile names its optimizer by these keys.
STATE_COPIES: Mapping[str, int] = {"sgd-plain": 0, "sgd": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True, slots=True)
class OptimizerSetting:
    """An optimizer with its constants; the learning rate moves during training."""

    name: OptimizerName = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False

    @property
    def key(self) -> str:
        """The name under which its state is known: SGD without momentum keeps none."""
        return "sgd-plain" if self.name == "sgd" and not self.momentum else self.name

    def make(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the torch optimizer of a model's parameters."""
        import torch

        if self.name == "sgd":
            return torch.optim.SGD(
                model.parameters(),
                lr=self.lr,
                momentum=self.momentum,
                weight_decay=self.weight_decay,
                nesterov=self.nesterov,
            )
        makers: Mapping[str, type[torch.optim.Adam] | type[torch.optim.AdamW]] = {
            "adam": torch.optim.Adam,
            "adamw": torch.optim.AdamW,
        }
        return makers[self.name](model.parameters(), lr=self.lr, weight_decay=self.weight_decay)
