"""The Profile: how long each layer of a workload takes on one device, per batch size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

from paceline.artefact import Artefact
from paceline.workload.workload import Workload

Source = Literal["measured", "translated", "scaled", "modelled"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one training step at one batch size.

    ``step_seconds`` is the sum of the layers, the optimizer, the wait for data and the rest of the loop
    (``overhead_seconds``); ``spread`` is the relative half-width of its 80 % interval over many steps, ``jitter`` the
    relative standard deviation of one step, ``variation`` that of the speed of devices of the kind: where devices wait
    for each other, they wait for the slowest.
    """

    batch: int
    forward_seconds: tuple[float, ...]
    backward_seconds: tuple[float, ...]
    optimizer_seconds: float
    data_seconds: float
    overhead_seconds: float
    spread: float
    jitter: float = 0.0
    variation: float = 0.0

    @property
    def forward(self) -> float:
        """Seconds of the whole forward, loss included."""
        return sum(self.forward_seconds)

    @property
    def backward(self) -> float:
        """Seconds of the whole backward."""
        return sum(self.backward_seconds)

    @property
    def compute_seconds(self) -> float:
        """Seconds that the device computes: forward, backward, optimizer."""
        return self.forward + self.backward + self.optimizer_seconds

    @property
    def step_seconds(self) -> float:
        """Seconds from one step's start to the next one's on this device alone."""
        return self.compute_seconds + self.data_seconds + self.overhead_seconds

    def scaled(self, factor: float) -> Timing:
        """Return the timing of a device that is ``1/factor`` times as fast at everything."""
        return replace(
            self,
            forward_seconds=tuple(s * factor for s in self.forward_seconds),
            backward_seconds=tuple(s * factor for s in self.backward_seconds),
            optimizer_seconds=self.optimizer_seconds * factor,
            data_seconds=self.data_seconds * factor,
            overhead_seconds=self.overhead_seconds * factor,
        )


@dataclass(frozen=True, slots=True)
class Profile(Artefact):
    """A workload's times on one device, with where they come from.

    ``start_seconds`` is what the first batch of an epoch costs more than the others (loader start, allocator, caches).
    ``crowding`` is how many times as long a step takes when all devices of a host compute at once: more than 1 where
    they share caches and memory, as the cores of a processor do. ``overlap_slowdown`` is how many times as long compute
    takes beside a collective; None leaves it to the device's own figure.
    """

    kind: ClassVar[str] = "profile"

    workload: Workload
    device: str
    source: Source
    optimizer: str
    timings: tuple[Timing, ...]
    threads: int = 0  # of a CPU device; 0 elsewhere
    start_seconds: float = 0.0
    crowding: float = 1.0
    note: str = ""
    overlap_slowdown: float | None = None

    @property
    def precision(self) -> str:
        """The precision that the times hold for."""
        return self.workload.precision

    def batches(self) -> tuple[int, ...]:
        """Return the batch sizes that were timed, smallest first."""
        return tuple(sorted(timing.batch for timing in self.timings))

    def exact(self, batch: int) -> bool:
        """Whether a batch size was timed itself, not interpolated."""
        return batch in self.batches()

    def at(self, batch: int) -> Timing:
        """Return the timing at a batch size: as timed, or by a straight line through the nearest two.

        With a single timing, layers are taken as proportional to the batch and the rest as fixed; a line that falls
        with the batch (noise) is clamped to the nearer end.
        """
        known = {timing.batch: timing for timing in self.timings}
        if batch in known:
            return known[batch]
        sizes = self.batches()
        if len(sizes) == 1:
            return _proportional(known[sizes[0]], batch)
        low, high = _neighbours(sizes, batch)
        return _on_line(known[low], known[high], batch)


def _neighbours(sizes: tuple[int, ...], batch: int) -> tuple[int, int]:
    for low, high in pairwise(sizes):
        if batch < high:
            return low, high
    return sizes[-2], sizes[-1]


def _proportional(timing: Timing, batch: int) -> Timing:
    share = batch / timing.batch
    return replace(
        timing,
        batch=batch,
        forward_seconds=tuple(s * share for s in timing.forward_seconds),
        backward_seconds=tuple(s * share for s in timing.backward_seconds),
        data_seconds=timing.data_seconds * share,
    )


def _on_line(low: Timing, high: Timing, batch: int) -> Timing:
    share = (batch - low.batch) / (high.batch - low.batch)

    def point(a: float, b: float) -> float:
        value = a + (b - a) * share
        if batch < low.batch:  # never below what proportionality to the smallest gives
            return min(max(value, a * batch / low.batch), a)
        return max(value, b) if batch > high.batch else value

    def points(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(map(point, a, b))

    return Timing(
        batch=batch,
        forward_seconds=points(low.forward_seconds, high.forward_seconds),
        backward_seconds=points(low.backward_seconds, high.backward_seconds),
        optimizer_seconds=point(low.optimizer_seconds, high.optimizer_seconds),
        data_seconds=point(low.data_seconds, high.data_seconds),
        overhead_seconds=point(low.overhead_seconds, high.overhead_seconds),
        spread=max(low.spread, high.spread),
        jitter=max(low.jitter, high.jitter),
        variation=max(low.variation, high.variation),
    )
