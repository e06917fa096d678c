"""Where a step's time goes, exclusively per device, so that the parts add up to the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paceline.engine.play import Played
from paceline.engine.program import Work

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
    else communicating, while a transfer of its own is under way; the rest is bubble.
    """
    program = played.program
    first, last = (0.0, played.makespan) if window is None else window
    total = last - first
    parts = [0.0, 0.0, 0.0, 0.0, 0.0]
    devices = sum(role.count for role in program.roles)
    spans: list[list[list[Span]]] = [[[] for _ in Work] for _ in program.roles]
    for device, work, start, end in zip(program.device, program.works, played.start, played.end):
        if device >= 0 and end > first and start < last:
            spans[device][work].append((max(start, first), min(end, last)))
    for role, own in zip(program.roles, spans):
        share = role.count / devices
        seen: list[Span] = []
        before = 0.0
        for work in Work:  # in the order of precedence
            seen = merged([*seen, *own[work]])
            length = sum(end - start for start, end in seen)
            parts[work] += (length - before) * share
            before = length
        parts[4] += max(total - before, 0.0) * share
    return Breakdown(
        compute=parts[Work.COMPUTE],
        communication=parts[Work.COMMUNICATION],
        bubble=parts[4],
        overhead=parts[Work.OVERHEAD],
        data=parts[Work.DATA],
    )


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the union of intervals as disjoint ones.

    >>> merged([(5, 6), (0, 2), (1, 3)])
    [(0, 3), (5, 6)]
    """
    whole: list[Span] = []
    first, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        if start > reached:
            if reached > first:
                whole.append((first, reached))
            first, reached = start, end
        elif end > reached:
            reached = end
    if reached > first:
        whole.append((first, reached))
    return whole
