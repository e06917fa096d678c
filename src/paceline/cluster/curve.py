"""Curves: what a collective takes by its bytes, as somebody measured it.

A straight line through the times of a real library is 10 % and more off in the middle sizes: protocols switch, pipes
fill, a shaper lets the first bytes through. So a probe keeps its points, and predictions go through them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from paceline.schema import Count, NonNegative, Positive


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of a collective over ``ranks`` devices at some sizes, which increase.

    >>> curve = Curve("all-reduce", 4, (0.0, 1e6), (1e-3, 5e-3))
    >>> [round(curve.at(size), 4) for size in (0, 5e5, 2e6)]
    [0.001, 0.003, 0.009]
    """

    collective: Annotated[str, Field(min_length=1)]
    ranks: Count
    bytes: Annotated[tuple[NonNegative, ...], Field(min_length=2)]
    seconds: Annotated[tuple[Positive, ...], Field(min_length=2)]

    def __post_init__(self) -> None:
        if len(self.bytes) != len(self.seconds) or len(self.bytes) < 2:
            raise ValueError(f"{len(self.bytes)} sizes and {len(self.seconds)} times, must be as many, at least 2")
        if any(later <= earlier for earlier, later in zip(self.bytes, self.bytes[1:])):
            raise ValueError("the sizes of a curve must increase")

    def at(self, size: float) -> float:
        """Return the seconds of a size, by straight lines between the points; beyond them, as the nearest line goes.

        A line that falls (noise) is level instead.
        """
        place = min(max(bisect_left(self.bytes, size), 1), len(self.bytes) - 1)
        low, high = self.bytes[place - 1], self.bytes[place]
        first, second = self.seconds[place - 1], self.seconds[place]
        slope = max(second - first, 0.0) / (high - low)
        return max(first + slope * (size - low), min(first, second) / 2)


def curve_for(curves: Iterable[Curve], collective: str, ranks: int) -> Curve | None:
    """Return the curve of a collective over exactly so many devices, if it was measured."""
    return next((curve for curve in curves if curve.collective == collective and curve.ranks == ranks), None)
