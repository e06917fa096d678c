"""Measures a Profile: trains on a few batches of one device, as the thesis on predicting training times does.

Whole steps are timed unwatched until the median is known to 1 % or the time is up; then a few watched steps say how
each direction divides over the layers.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from paceline.data.loader import Loader
from paceline.data.shard import Shard
from paceline.data.source import Samples
from paceline.errors import ModelError, RunError
from paceline.model.source import ModelSource
from paceline.workload.clock import clock_for
from paceline.workload.optime import time_layers
from paceline.workload.optimizer import OptimizerSetting
from paceline.workload.precision import autocast, model_dtype
from paceline.workload.profile import Profile, Timing
from paceline.workload.statistic import Z_80, median_half_width, robust_sigma, trimmed_mean
from paceline.workload.workload import Workload

WARM_UP = 3
ENOUGH = 0.01  # relative half-width of the median's 95 % interval at which measuring may stop
_LEAST = 5  # steps, however long they take
_DRIFT = 0.02  # machines drift between a profile and a run; no spread is taken below this


@dataclass(slots=True)
class _Steps:
    forward: list[float] = field(default_factory=list)
    backward: list[float] = field(default_factory=list)
    optimizer: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


def measure(
    source: ModelSource,
    samples: Samples,
    workload: Workload,
    optimizer: OptimizerSetting,
    *,
    device: str = "cpu",
    threads: int = 0,
    batches: Sequence[int] = (),
    seconds: float = 15.0,
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> Profile:
    """Return the profile of a workload on a device of this machine.

    The workload's own batch size gets half of ``seconds``, the other ``batches`` share the rest. ``progress`` hears
    what is going on and the share that is done.
    """
    where = torch.device(device)
    others = [batch for batch in sorted(set(batches)) if batch != workload.batch]
    timings: list[Timing] = []
    with _threads(threads):
        torch.manual_seed(0)
        model = source.build().to(where, model_dtype(workload.precision)).train()
        bench = _Bench(source, samples, model, optimizer.make(model), where, workload)
        progress(f"batch {workload.batch}", 0.0)
        main, start = bench.timing(workload.batch, seconds / 2 if others else seconds)
        timings.append(main)
        for number, batch in enumerate(others):
            progress(f"batch {batch}", 0.5 + 0.5 * number / len(others))
            try:
                timings.append(bench.timing(batch, seconds / 2 / len(others))[0])
            except ValueError:  # batch norm refuses a single value per channel
                continue
        progress("done", 1.0)
    return Profile(
        workload=workload,
        device=device,
        source="measured",
        optimizer=optimizer.key,
        timings=tuple(sorted(timings, key=lambda timing: timing.batch)),
        threads=threads or (torch.get_num_threads() if where.type == "cpu" else 0),
        start_seconds=start,
        note=f"measured on this machine, torch {torch.__version__}",
    )


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Bench:
    def __init__(
        self,
        source: ModelSource,
        samples: Samples,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        workload: Workload,
    ) -> None:
        self.source = source
        self.samples = samples
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.workload = workload

    def timing(self, batch: int, seconds: float) -> tuple[Timing, float]:
        """Return the timing at a batch size and what its first step cost more than the later ones."""
        steps, first = self.steps(batch, seconds)
        whole = trimmed_mean(steps.whole)
        forward, backward = trimmed_mean(steps.forward), trimmed_mean(steps.backward)
        optimizer, data = trimmed_mean(steps.optimizer), trimmed_mean(steps.data)
        ahead, back = self.layers(batch)
        timing = Timing(
            batch=batch,
            forward_seconds=_to_sum(ahead, forward),
            backward_seconds=_to_sum(back, backward),
            optimizer_seconds=optimizer,
            data_seconds=data,
            overhead_seconds=max(whole - forward - backward - optimizer - data, 0.0),
            spread=max(_DRIFT, Z_80 * robust_sigma(steps.whole) / whole / math.sqrt(len(steps.whole))),
        )
        return timing, max(first - whole, 0.0)

    def steps(self, batch: int, seconds: float) -> tuple[_Steps, float]:
        steps, first, began = _Steps(), 0.0, time.perf_counter()
        with Loader(self.samples, self._shards(batch)) as loader:
            last = time.perf_counter()
            for number, (_, read, wanted, wait) in enumerate(loader):
                clock = clock_for(self.device)
                inputs, targets = self._placed(read, wanted)
                self.optimizer.zero_grad(set_to_none=True)
                marks = [clock.mark()]
                with autocast(self.workload.precision, self.device.type):
                    loss = self.source.loss(self.model(inputs), targets)
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
                        f"the loss of {self.source.name} became {value} at batch {number + 1} of the profile; "
                        "lower train.lr or check the data"
                    )
                if number == 0:
                    first = now - last
                if number >= WARM_UP:
                    steps.forward.append(clock.seconds(marks[0], marks[1]))
                    steps.backward.append(clock.seconds(marks[1], marks[2]))
                    steps.optimizer.append(clock.seconds(marks[2], marks[3]))
                    steps.data.append(wait)
                    steps.whole.append(now - last)
                last = now
                known = median_half_width(steps.whole) if len(steps.whole) >= 4 * _LEAST else math.inf
                late = now - began > seconds and len(steps.whole) >= _LEAST
                # A machine's speed wanders over seconds: agreement within a burst of short steps proves little.
                if late or (known < ENOUGH and now - began > seconds / 2):
                    break
        return steps, first

    def layers(self, batch: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        inputs, targets = self._placed(*self.samples.batch(next(self._shards(batch)).indices))

        def forward() -> torch.Tensor:
            with autocast(self.workload.precision, self.device.type):
                return self.source.loss(self.model(inputs), targets)

        try:
            return time_layers(self.model, forward, len(self.workload.layers), self.device)
        except ValueError as error:
            raise ModelError(f"model {self.source.name} cannot be profiled: {error}") from error

    def _placed(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if inputs.is_floating_point():
            inputs = inputs.to(model_dtype(self.workload.precision))
        return inputs.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True)

    def _shards(self, batch: int) -> Iterator[Shard]:
        count, step = len(self.samples), 0
        generator = torch.Generator().manual_seed(0)
        while True:
            yield Shard(step, torch.randint(count, (batch,), generator=generator), batch)
            step += 1


def _to_sum(seconds: Sequence[float], total: float) -> tuple[float, ...]:
    found = sum(seconds)
    return tuple(value * total / found for value in seconds) if found else tuple(seconds)
