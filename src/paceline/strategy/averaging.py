"""The average of all workers' weights on its way: an all-reduce in the background, and how long anybody waited for it.

compute   take | step | step | wait  give
network        ------ average -----|
               <--- hidden --><---->
                             exposed
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from paceline.strategy.flat import Flat
from paceline.strategy.traveltime import TravelTime, travel_time


class Averaging:
    """Averages flat buffers over the workers, one average at a time."""

    def __init__(self, flats: Sequence[Flat], workers: int, device: torch.device) -> None:
        self._flats = flats
        self._workers = workers
        self._time: TravelTime = travel_time(device)
        self._works: list[Any] = []
        # Also when the process ends: an arrival in an interpreter that is gone would abort it.
        weakref.finalize(self, _let_arrive, self._works, self._time)

    @property
    def under_way(self) -> bool:
        """Whether an average was started that nobody has waited for."""
        return bool(self._works)

    def start(self) -> None:
        """Take a snapshot of the weights and send it; return at once."""
        for flat in self._flats:
            flat.take()
        self._time.leave()
        # Sums, which every backend has.
        self._works.extend(dist.all_reduce(flat.buffer, async_op=True) for flat in self._flats)
        self._time.follow(self._works)

    def wait(self) -> None:
        """Return when the buffers hold the average; at once where it has arrived."""
        with self._time.waiting():
            for work in self._works:
                work.wait()
        self._works.clear()
        for flat in self._flats:
            flat.buffer.div_(self._workers)

    def seconds(self) -> tuple[float, float]:
        """Return (exposed, hidden) seconds of the last average that was waited for."""
        return self._time.seconds()


def _let_arrive(works: Sequence[Any], time: TravelTime) -> None:
    """Wait for what nobody waited for, unless it cannot come any more."""
    if works:
        with contextlib.suppress(RuntimeError), time.waiting():
            for work in works:
                work.wait()
