"""A step that a device takes by itself, as few tasks: nothing else waits for one of its layers."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.engine.program import Builder, Work
from paceline.strategy.compute import add_start
from paceline.workload.profile import Timing


def add_local_step(build: Builder, compute: int, timing: Timing, number: int, after: Iterable[int]) -> int:
    """Add data, loop, forward, backward and optimizer; return the last task."""
    start = add_start(build, compute, timing, after=after)
    parts = (("forward", timing.forward), ("backward", timing.backward), ("optimizer", timing.optimizer_seconds))
    task = start
    for name, seconds in parts:
        task = build.task(f"{name} {number}", Work.COMPUTE, compute, seconds, [task])
    return task
