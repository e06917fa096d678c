"""A virtual device: the process that holds it trains a rebuilt model in the times of a profile.

Layers take their time inside the model. What a step takes besides them (the wait for data, the loop, the optimizer) is
taken behind the optimizer's own step, which runs for real on the scaled parameters.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from paceline.data.source import DataSource
from paceline.model.source import ModelSource
from paceline.workload.profile import Profile
from paceline.workload.virtual.model import Scales, VirtualModel, zero_loss
from paceline.workload.virtual.op import DEVICE


@dataclass(frozen=True, slots=True)
class Pace:
    """How a device departs from its profile, in the file's seconds.

    ``slow`` is how many times as long everything takes, ``jitter`` the relative standard deviation of a step, and every
    ``every`` seconds the device stands still for ``pause`` seconds.
    """

    slow: float = 1.0
    jitter: float = 0.0
    pause: float = 0.0
    every: float = 0.0


class VirtualDevice:
    """The one virtual device of this process."""

    def __init__(self, profile: Profile, scales: Scales, pace: Pace, seed: int) -> None:
        self._profile, self._scales, self._pace = profile, scales, pace
        self._random = random.Random(seed)
        self._models: list[VirtualModel] = []
        self._paused = time.perf_counter()
        self._set_pace()
        self._hook = register_optimizer_step_post_hook(self._finish_step)

    def source(self, source: ModelSource) -> ModelSource:
        """Return where the rebuilt model comes from, in place of the model itself."""
        return replace(source, factory=self._build, loss_function=zero_loss)

    def late(self) -> float:
        """Return the seconds here that this machine has cost the device since the start."""
        return DEVICE.late

    def close(self) -> None:
        """Leave the process's optimizers alone again."""
        self._hook.remove()

    def _build(self) -> nn.Module:
        self._models.append(VirtualModel(self._profile, self._scales))
        return self._models[-1]

    def _finish_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take the time of a step's other parts: an optimizer with a part of the parameters takes its part of it."""
        model = self._models[-1]
        if not model.batches:
            return
        timing = model.at(max(model.batches))
        passes = len(model.batches)
        held = sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
        share = held / max(sum(parameter.numel() for parameter in model.parameters()), 1)
        seconds = timing.data_seconds * passes + timing.overhead_seconds + timing.optimizer_seconds
        DEVICE.work(seconds * min(share, 1.0) * self._scales.time)
        model.batches.clear()
        self._stand_still()
        self._set_pace()

    def _stand_still(self) -> None:
        if self._pace.pause and time.perf_counter() - self._paused >= self._pace.every * self._scales.time:
            DEVICE.pace = 1.0
            DEVICE.work(self._pace.pause * self._scales.time)
            self._paused = time.perf_counter()

    def _set_pace(self) -> None:
        DEVICE.pace = self._pace.slow * max(1 + self._pace.jitter * self._random.gauss(0.0, 1.0), 0.1)


class BlankSamples:
    """``count`` samples of nothing: a virtual device looks at their number only."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return zeros, as many as asked for."""
        return torch.zeros(len(indices), 1), torch.zeros(len(indices), dtype=torch.int64)


def blank_data(samples: int) -> DataSource:
    """Return the data set of a virtual device."""
    return DataSource("virtual", BlankSamples(samples), None, 1)
