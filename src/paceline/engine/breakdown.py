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
    counted = np.array([0 if role.idle else role.count for role in program.roles], np.float64)
    devices = float(counted.sum())
    if not devices:
        return Breakdown(0.0, 0.0, 0.0, 0.0, 0.0)
    start, end = np.maximum(played.start, first), np.minimum(played.end, last)
    seen = np.flatnonzero((end > start) & (program.device >= 0))
    owner = program.device[seen]
    # Role after role on one axis: no span of one reaches into the next one's.
    shift = (last - first) * owner
    order = np.argsort(start[seen] + shift, kind="stable")
    seen, owner, shift = seen[order], owner[order], shift[order]
    starts, ends, weights = start[seen] + shift, end[seen] + shift, counted[owner] / devices
    works = program.works[seen]
    parts = []
    before = 0.0
    for work in Work:  # in the order of precedence
        chosen = works <= work
        length = covered(starts[chosen], ends[chosen], weights[chosen])
        parts.append(length - before)
        before = length
    return Breakdown(
        compute=parts[Work.COMPUTE],
        communication=parts[Work.COMMUNICATION],
        bubble=max(last - first - before, 0.0),
        overhead=parts[Work.OVERHEAD],
        data=parts[Work.DATA],
    )


def covered(starts: Floats, ends: Floats, weights: Floats | None = None) -> float:
    """Return the length of the union of intervals that are sorted by their starts, each part by its interval's weight.

    >>> covered(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
    4.0
    """
    if not len(starts):
        return 0.0
    reached = np.maximum.accumulate(ends)
    fresh = ends - starts
    fresh[1:] = np.maximum(ends[1:] - np.maximum(starts[1:], reached[:-1]), 0.0)
    return float(fresh.sum() if weights is None else fresh @ weights)
