"""Where a step's time goes, exclusively per device, so that the parts add up to the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.engine.play import Played
from paceline.engine.program import Floats, Work

Span = tuple[float, float]


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


def break_down(played: Played, window: Span | None = None) -> Breakdown:
    """Return the breakdown of what was played, or of the part of it within a window of time.

    A device is computing while any of its streams computes; else in overhead or waiting for data, as its streams say;
    else communicating, while a transfer of its own is under way; the rest is bubble. Roles that are idle by nature
    (servers) are no devices and do not count.
    """
    program = played.program
    first, last = (0.0, played.makespan) if window is None else window
    counted = [0 if role.idle else role.count for role in program.roles]
    devices = sum(counted)
    if not devices:
        return Breakdown(0.0, 0.0, 0.0, 0.0, 0.0)
    start, end = np.maximum(played.start, first), np.minimum(played.end, last)
    seen = np.flatnonzero((end > start) & (program.device >= 0))
    seen = seen[np.argsort(start[seen], kind="stable")]
    parts = [0.0, 0.0, 0.0, 0.0]
    bubble = 0.0
    for role, count in enumerate(counted):
        own = seen[program.device[seen] == role] if len(counted) > 1 else seen
        works = program.works[own]
        before = 0.0
        for work in Work:  # in the order of precedence
            chosen = own if work is Work.COMMUNICATION else own[works <= work]
            length = covered(start[chosen], end[chosen])
            parts[work] += (length - before) * count / devices
            before = length
        bubble += max(last - first - before, 0.0) * count / devices
    return Breakdown(
        compute=parts[Work.COMPUTE],
        communication=parts[Work.COMMUNICATION],
        bubble=bubble,
        overhead=parts[Work.OVERHEAD],
        data=parts[Work.DATA],
    )


def covered(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of intervals that are sorted by their starts.

    >>> covered(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
    4.0
    """
    if not len(starts):
        return 0.0
    reached = np.maximum.accumulate(ends)
    fresh = ends[1:] - np.maximum(starts[1:], reached[:-1])
    return float(ends[0] - starts[0] + fresh[fresh > 0].sum())
