"""The tasks that every strategy's device does alike: data, forward, backward, optimizer, the rest of the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.engine.program import Builder, Work
from paceline.workload.arrays import layer_arrays
from paceline.workload.profile import Timing
from paceline.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Backward:
    """The task that computes a layer's gradients, layer by layer in the order of the forward."""

    tasks: Sequence[int]

    @property
    def last(self) -> int:
        """The end of the backward: the first layer's task."""
        return self.tasks[0]


def add_forward(build: Builder, stream: int, workload: Workload, timing: Timing, after: Iterable[int] = ()) -> int:
    """Add a forward and return its last task."""
    names = layer_arrays(workload).names
    return build.chain("forward", names, Work.COMPUTE, stream, timing.forward_seconds, after)[-1]


def add_backward(
    build: Builder,
    stream: int,
    workload: Workload,
    timing: Timing,
    after: Iterable[int],
    extra: Sequence[float] | None = None,
) -> Backward:
    """Add a backward, with ``extra`` seconds behind each layer (copies of its gradients), and return its tasks."""
    seconds = np.array(timing.backward_seconds)
    if extra is not None:
        seconds = seconds + np.array(extra)
    names = layer_arrays(workload).names
    last = len(names) - 1
    tasks = build.chain("backward", lambda place: names[last - place], Work.COMPUTE, stream, seconds[::-1], after)
    return Backward(tasks[::-1])


def add_start(build: Builder, stream: int, timing: Timing, batches: int = 1, after: Iterable[int] = ()) -> int:
    """Add the wait for the step's batches and the loop around the step; return the last task."""
    data = build.task("data", Work.DATA, stream, timing.data_seconds * batches, after)
    return build.task("loop", Work.OVERHEAD, stream, timing.overhead_seconds, [data])


def add_optimizer(build: Builder, stream: int, timing: Timing, after: Iterable[int]) -> int:
    """Add the optimizer's step and return it."""
    return build.task("optimizer", Work.COMPUTE, stream, timing.optimizer_seconds, after)
