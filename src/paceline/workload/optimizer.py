"""Optimizers by name: how torch makes them, and the state they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch
    from torch import nn

OptimizerName = Literal["sgd", "adam", "adamw", "lars", "lamb"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("sgd", "adam", "adamw", "lars", "lamb")
# Values kept for each parameter between steps; a profile names its optimizer by these keys.
STATE_COPIES: Mapping[str, int] = {
    "sgd-plain": 0,
    "sgd": 1,
    "adam": 2,
    "adamw": 2,
    "lars-plain": 0,
    "lars": 1,
    "lamb": 2,
}
_LAYER_WISE = ("lars", "lamb")


def scratch_bytes(optimizer: str, sizes: Sequence[int], *, foreach: bool, decay: bool = False) -> int:
    """Return what an optimizer's step needs for a moment over weights of some sizes in bytes.

    Read in torch 2.13, default settings: on GPUs ``foreach`` handles all weights at once, so a temporary is as large as
    all of them; on processors weights come one by one. Adam takes a square root of the second moment (one by one,
    another copy divides it by the bias correction, and the quotient of the weight before is still there), and weight
    decay that is added to the gradient copies the gradient (AdamW's is not; foreach Adam lets go of that copy before
    the root). LARS and LAMB are ours and go weight by weight everywhere: the scaled direction, and for LAMB the root of
    the second moment beside it.

    >>> scratch_bytes("adam", [40, 60], foreach=True), scratch_bytes("adam", [40, 60], foreach=False)
    (100, 160)
    """
    if optimizer.partition("-")[0] in _LAYER_WISE:
        return (2 if optimizer == "lamb" else 1) * max(sizes, default=0)
    decayed = decay and optimizer != "adamw"
    if STATE_COPIES[optimizer] == 2:
        if foreach:
            return sum(sizes)
        copies = 3 if decayed else 2
        return max((before + copies * size for before, size in zip((0, *sizes), sizes)), default=0)
    return (sum(sizes) if foreach else max(sizes, default=0)) if decayed else 0


@dataclass(frozen=True, slots=True)
class OptimizerSetting:
    """An optimizer with its constants; the learning rate moves during training.

    ``trust`` is LARS's coefficient; without ``decay_norm_and_bias`` gains and biases keep out of weight decay;
    ``clip_norm`` shortens the gradient of all parameters together to that length before each step.
    """

    name: OptimizerName = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False
    trust: float = 0.001
    decay_norm_and_bias: bool = True
    clip_norm: float | None = None

    @property
    def key(self) -> str:
        """The name under which its state is known: without momentum SGD and LARS keep none."""
        return f"{self.name}-plain" if self.name in ("sgd", "lars") and not self.momentum else self.name

    def make(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the torch optimizer of a model's parameters."""
        made = self._made(model)
        if self.clip_norm is not None:
            from paceline.workload.clip import clip_before_step

            clip_before_step(made, self.clip_norm)
        return made

    def _made(self, model: nn.Module) -> torch.optim.Optimizer:
        import torch

        from paceline.workload.group import parameter_groups
        from paceline.workload.lamb import Lamb
        from paceline.workload.lars import Lars

        groups = parameter_groups(
            model, adapt=self.name in _LAYER_WISE, decay=self.decay_norm_and_bias or not self.weight_decay
        )
        lr, decay = self.lr, self.weight_decay
        match self.name:
            case "sgd":
                return torch.optim.SGD(groups, lr, self.momentum, weight_decay=decay, nesterov=self.nesterov)
            case "lars":
                return Lars(groups, lr, self.momentum, weight_decay=decay, trust=self.trust)
            case "adam":
                return torch.optim.Adam(groups, lr, weight_decay=decay)
            case "adamw":
                return torch.optim.AdamW(groups, lr, weight_decay=decay)
            case "lamb":
                return Lamb(groups, lr, weight_decay=decay)
