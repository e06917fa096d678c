"""The typical step of a run whose steps are not all alike: those of a round differ, and come back with every round."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.strategy.contract import Plan
from paceline.workload.statistic import robust_sigma, trimmed_mean


def round_steps(plan: Plan) -> int:
    """Return the steps after which a plan's traffic repeats: those between two averages, or 1."""
    return int(plan.knobs.get("tau", 1))


def typical(values: Sequence[float], numbers: Sequence[int], period: int) -> float:
    """Return the mean over a round of what is typical of each of its places.

    A trimmed mean over all steps would take a round's one average for a hiccup. ``numbers`` are the steps to look at;
    places that none of them has are left out.

    >>> typical([1, 1, 1, 9, 1, 1, 1, 9], range(8), 4)
    3.0
    """
    return sum(centres := list(_centres(values, numbers, period).values())) / len(centres)


def spread(values: Sequence[float], numbers: Sequence[int], period: int) -> float:
    """Return the robust standard deviation of steps around what is typical of their place in the round."""
    centres = _centres(values, numbers, period)
    return robust_sigma([values[number] - centres[number % period] for number in numbers])


def _centres(values: Sequence[float], numbers: Sequence[int], period: int) -> dict[int, float]:
    places: dict[int, list[float]] = {}
    for number in numbers:
        places.setdefault(number % period, []).append(values[number])
    return {place: trimmed_mean(found) for place, found in places.items()}
