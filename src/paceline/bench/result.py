"""What a suite finds: a cell per comparison, and the figures that sum them up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.artefact import Artefact


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison; ``error`` is predicted over measured, less one. ``range`` is what the prediction allowed for."""

    name: str
    plan: str
    predicted: float
    measured: float
    unit: str
    error: float
    note: str = ""
    range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures over all cells: errors are absolute, the bias is signed.

    ``best_named_first`` and ``mean_regret`` stand where a suite has choices to make, ``in_range`` where predictions
    have ranges: the share of measured values inside what was predicted for 8 of 10.
    """

    cells: int
    mean_error: float
    median_error: float
    p95_error: float
    worst_error: float
    bias: float
    best_named_first: float | None = None
    mean_regret: float | None = None
    in_range: float | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when a suite ran, and with what."""

    date: str
    cores: int
    processor: str
    python: str
    torch: str
    paceline: str
    command: str


@dataclass(frozen=True, slots=True)
class BenchResult(Artefact):
    """A suite's cells and their summary."""

    kind: ClassVar[str] = "bench"

    suite: str
    cells: tuple[Cell, ...]
    summary: Summary
    machine: Machine
    seconds_spent: float


def cell(
    name: str,
    plan: str,
    predicted: float,
    measured: float,
    unit: str,
    note: str = "",
    range: tuple[float, float] | None = None,
) -> Cell:
    """Return a cell with its error.

    >>> cell("resnet50", "single", 1.1, 1.0, "s").error
    0.10000000000000009
    """
    return Cell(name, plan, predicted, measured, unit, predicted / measured - 1, note, range)


def summarise(cells: Sequence[Cell]) -> Summary:
    """Return the figures over some cells."""
    errors = sorted(abs(found.error) for found in cells)
    inside = [found.range[0] <= found.measured <= found.range[1] for found in cells if found.range]
    return Summary(
        cells=len(cells),
        mean_error=statistics.fmean(errors),
        median_error=statistics.median(errors),
        p95_error=quantile(errors, 0.95),
        worst_error=errors[-1],
        bias=statistics.fmean(found.error for found in cells),
        in_range=statistics.fmean(inside) if inside else None,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values by straight lines between them.

    >>> quantile([0.0, 1.0, 2.0], 0.75)
    1.5
    """
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
