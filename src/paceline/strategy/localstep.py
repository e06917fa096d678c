"""Steps that devices take by themselves, as few tasks: nothing else waits for one of their layers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from paceline.engine.program import Builder, Work
from paceline.workload.profile import Timing

_PARTS = (
    ("data", Work.DATA),
    ("loop", Work.OVERHEAD),
    ("forward", Work.COMPUTE),
    ("backward", Work.COMPUTE),
    ("optimizer", Work.COMPUTE),
)


def add_local_steps(build: Builder, compute: int, timing: Timing, first: int, count: int, after: Iterable[int]) -> int:
    """Add data, loop, forward, backward, optimizer of so many steps, numbered from ``first``; return the last task."""
    seconds = [
        timing.data_seconds,
        timing.overhead_seconds,
        timing.forward,
        timing.backward,
        timing.optimizer_seconds,
    ]

    def label(place: int) -> str:
        return f"{_PARTS[place % len(_PARTS)][0]} {first + place // len(_PARTS)}"

    works = np.tile([work for _, work in _PARTS], count)
    return build.chain("", label, works, compute, np.tile(seconds, count), after)[-1]
