"""The tasks that every strategy's device does alike: data, forward, backward, optimizer, the rest of the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.engine.program import Builder, Work
from paceline.workload.profile import Timing
from paceline.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Backward:
    """The task that computes a layer's gradients, layer by layer in the order of the forward."""

    tasks: tuple[int, ...]

    @property
    def last(self) -> int:
        """The end of the backward: the first layer's task."""
        return self.tasks[0]


def add_forward(build: Builder, stream: int, workload: Workload, timing: Timing, after: Iterable[int] = ()) -> int:
    """Add a forward and return its last task."""
    before = tuple(after)
    for layer, seconds in zip(workload.layers, timing.forward_seconds):
        before = (build.task(f"forward {layer.name}", Work.COMPUTE, stream, seconds, before),)
    return before[0]


def add_backward(
    build: Builder,
    stream: int,
    workload: Workload,
    timing: Timing,
    after: Iterable[int],
    extra: Sequence[float] | None = None,
) -> Backward:
    """Add a backward, with ``extra`` seconds behind each layer (copies of its gradients), and return its tasks."""
    before = tuple(after)
    tasks = [0] * len(workload.layers)
    for number in range(len(workload.layers) - 1, -1, -1):
        seconds = timing.backward_seconds[number] + (extra[number] if extra else 0.0)
        name = f"backward {workload.layers[number].name}"
        before = (build.task(name, Work.COMPUTE, stream, seconds, before),)
        tasks[number] = before[0]
    return Backward(tuple(tasks))


def add_start(build: Builder, stream: int, timing: Timing, batches: int = 1) -> int:
    """Add the wait for the step's batches and the loop around the step; return the last task."""
    data = build.task("data", Work.DATA, stream, timing.data_seconds * batches)
    return build.task("loop", Work.OVERHEAD, stream, timing.overhead_seconds, [data])


def add_optimizer(build: Builder, stream: int, timing: Timing, after: Iterable[int]) -> int:
    """Add the optimizer's step and return it."""
    return build.task("optimizer", Work.COMPUTE, stream, timing.optimizer_seconds, after)
