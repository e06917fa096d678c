"""Optimizers by name: how torch makes them, and the state they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch
    from torch import nn

OptimizerName = Literal["sgd", "adam", "adamw"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("sgd", "adam", "adamw")
# Values kept for each parameter between steps; a profile names its optimizer by these keys.
STATE_COPIES: Mapping[str, int] = {"sgd-plain": 0, "sgd": 1, "adam": 2, "adamw": 2}


def scratch_bytes(optimizer: str, sizes: Sequence[int], *, foreach: bool, decay: bool = False) -> int:
    """Return what an optimizer's step needs for a moment over weights of some sizes in bytes.

    Read in torch 2.13, default settings: on GPUs ``foreach`` handles all weights at once, so a temporary is as large as
    all of them; on processors weights come one by one. Adam takes a square root of the second moment (one by one,
    another copy divides it by the bias correction, and the quotient of the weight before is still there), and weight
    decay that is added to the gradient copies the gradient (AdamW's is not; foreach Adam lets go of that copy before
    the root).

    >>> scratch_bytes("adam", [40, 60], foreach=True), scratch_bytes("adam", [40, 60], foreach=False)
    (100, 160)
    """
    decayed = decay and optimizer != "adamw"
    if STATE_COPIES[optimizer] == 2:
        if foreach:
            return sum(sizes)
        copies = 3 if decayed else 2
        return max((before + copies * size for before, size in zip((0, *sizes), sizes)), default=0)
    return (sum(sizes) if foreach else max(sizes, default=0)) if decayed else 0


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
