"""Where a step's time goes, exclusively per device, so that the parts add up to the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paceline.engine.play import Played
from paceline.engine.program import Work


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Seconds of a step by what a device does, averaged over devices; communication is what nothing else hides."""

    compute: float
    communication: float
    bubble: float
    overhead: float
    data: float

    @property
    def total(self) -> float:
        """The step."""
        return self.compute + self.communication + self.bubble + self.overhead + self.data

    def scaled(self, factor: float) -> Breakdown:
        """Return every part times a factor."""
        return Breakdown(
            self.compute * factor,
            self.communication * factor,
            self.bubble * factor,
            self.overhead * factor,
            self.data * factor,
        )


def break_down(played: Played, step_seconds: float | None = None) -> Breakdown:
    """Return the breakdown of a played step.

    A device that works is computing, in overhead or waiting for data, as the task on its stream says; one that does
    not work while a transfer of its own is under way is communicating; the rest is bubble.
    """
    program = played.program
    total = played.makespan if step_seconds is None else step_seconds
    parts = [0.0, 0.0, 0.0, 0.0, 0.0]
    devices = sum(role.count for role in program.roles)
    for number, role in enumerate(program.roles):
        own = [0.0, 0.0, 0.0, 0.0]
        working: list[tuple[float, float]] = []
        moving: list[tuple[float, float]] = []
        for task, device in enumerate(program.device):
            if device != number:
                continue
            span = (played.start[task], played.end[task])
            if program.works[task] is Work.COMMUNICATION:
                moving.append(span)
            else:
                own[program.works[task]] += span[1] - span[0]
                working.append(span)
        busy = covered(working)
        own[Work.COMMUNICATION] = covered([*working, *moving]) - busy
        share = role.count / devices
        for part, seconds in enumerate(own):
            parts[part] += seconds * share
        parts[4] += max(total - sum(own), 0.0) * share
    return Breakdown(
        compute=parts[Work.COMPUTE],
        communication=parts[Work.COMMUNICATION],
        bubble=parts[4],
        overhead=parts[Work.OVERHEAD],
        data=parts[Work.DATA],
    )


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals.

    >>> covered([(0, 2), (1, 3), (5, 6)])
    4.0
    """
    length, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        if end > reached:
            length += end - max(start, reached)
            reached = end
    return length
