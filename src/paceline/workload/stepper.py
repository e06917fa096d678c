"""Training steps on one device, taken apart: what a profile measures, and what keeps a device busy beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from paceline.data.loader import Loader
from paceline.data.shard import Shard
from paceline.data.source import Samples
from paceline.errors import RunError
from paceline.model.source import ModelSource
from paceline.workload.clock import clock_for
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.precision import autocast, model_dtype

# Measuring trains without a warm-up of the learning rate: steps so small that no model diverges cost the same time.
_LR = 1e-6


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step and of its parts; ``whole`` has everything, from the end of the step before."""

    forward: float
    backward: float
    optimizer: float
    data: float
    whole: float


class Stepper:
    """A model with its optimizer on a device, fed with random batches of a set."""

    def __init__(
        self, source: ModelSource, samples: Samples, optimizer: OptimizerSetting, precision: str, device: str = "cpu"
    ) -> None:
        self.source = source
        self.samples = samples
        self.precision = precision
        self.device = torch.device(device)
        torch.manual_seed(0)
        self.model: nn.Module = source.build().to(self.device, model_dtype(precision)).train()
        self.optimizer = replace(optimizer, lr=_LR).make(self.model)

    def steps(self, batch: int) -> Iterator[StepTime]:
        """Yield step after step without an end."""
        with Loader(self.samples, self._shards(batch)) as loader:
            last = time.perf_counter()
            for number, (_, read, wanted, wait) in enumerate(loader):
                clock = clock_for(self.device)
                inputs, targets = self.placed(read, wanted)
                self.optimizer.zero_grad(set_to_none=True)
                marks = [clock.mark()]
                loss = self.loss(inputs, targets)
                marks.append(clock.mark())
                loss.backward()
                marks.append(clock.mark())
                self.optimizer.step()
                marks.append(clock.mark())
                value = float(loss.item())
                clock.settle()
                now = time.perf_counter()
                if not math.isfinite(value):
                    raise RunError(
                        f"the loss of {self.source.name} is {value} at batch {number + 1} of the profile, before it "
                        "has learned anything; check the model and the data"
                    )
                yield StepTime(
                    forward=clock.seconds(marks[0], marks[1]),
                    backward=clock.seconds(marks[1], marks[2]),
                    optimizer=clock.seconds(marks[2], marks[3]),
                    data=wait,
                    whole=now - last,
                )
                last = now

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch that is on the device."""
        with autocast(self.precision, self.device.type):
            return self.source.loss(self.model(inputs), targets)

    def batch(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one batch on the device."""
        return self.placed(*self.samples.batch(next(self._shards(size)).indices))

    def placed(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Move a batch to the device, floating-point inputs in the model's type."""
        if inputs.is_floating_point():
            inputs = inputs.to(model_dtype(self.precision))
        return inputs.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True)

    def _shards(self, batch: int) -> Iterator[Shard]:
        generator, step = torch.Generator().manual_seed(0), 0
        while True:
            yield Shard(step, torch.randint(len(self.samples), (batch,), generator=generator), batch)
            step += 1
