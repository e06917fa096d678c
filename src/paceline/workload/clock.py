"""Stopwatches: the wall clock on a CPU, events in the stream on a GPU."""

from __future__ import annotations

import time
from typing import Protocol

import torch


class Clock(Protocol):
    """Marks moments while work is queued; the seconds between two marks are known after :meth:`settle`."""

    def mark(self) -> int:
        """Remember this moment in the device's work and return its number."""
        ...

    def settle(self) -> None:
        """Wait until the device has passed every mark."""
        ...

    def seconds(self, first: int, second: int) -> float:
        """Return the seconds between two settled marks."""
        ...


class WallClock:
    """For devices that compute when they are called."""

    def __init__(self) -> None:
        self._marks: list[float] = []

    def mark(self) -> int:
        """Remember this moment."""
        self._marks.append(time.perf_counter())
        return len(self._marks) - 1

    def settle(self) -> None:
        """Return at once: nothing is queued."""

    def seconds(self, first: int, second: int) -> float:
        """Return the seconds between two marks."""
        return self._marks[second] - self._marks[first]


class CudaClock:
    """For GPUs, which run behind the calls: events in the stream."""

    def __init__(self) -> None:
        self._marks: list[torch.cuda.Event] = []

    def mark(self) -> int:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)
        return len(self._marks) - 1

    def settle(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def seconds(self, first: int, second: int) -> float:
        """Return the seconds between two events."""
        return float(self._marks[first].elapsed_time(self._marks[second])) / 1e3


def clock_for(device: torch.device) -> Clock:
    """Return the stopwatch of a device."""
    return CudaClock() if device.type == "cuda" else WallClock()
