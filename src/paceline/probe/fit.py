"""A straight line through measured times: what a message costs, and what a byte costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Line:
    """``seconds = fixed + per_byte * bytes``; ``spread`` is the standard deviation of the relative residuals."""

    fixed: float
    per_byte: float
    spread: float

    def seconds(self, size: float) -> float:
        """Return the time of a size."""
        return self.fixed + self.per_byte * size


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """Return the line with the least squared RELATIVE residuals; neither part is negative.

    Relative, because times span five orders of magnitude and each size matters alike.

    >>> line = fit_line([0, 1000, 1000000], [1e-4, 1.01e-4, 1.1e-3])
    >>> round(line.fixed, 6), round(line.per_byte * 1e9, 3)
    (0.0001, 1.0)
    """
    x, y = np.asarray(sizes, float), np.asarray(seconds, float)
    rows = np.stack([1 / y, x / y], axis=1)
    answer, *_ = np.linalg.lstsq(rows, np.ones_like(y), rcond=None)
    fixed, per_byte = float(answer[0]), float(answer[1])
    if fixed < 0:
        fixed, per_byte = 0.0, float(np.sum(x / y) / np.sum((x / y) ** 2))
    elif per_byte < 0:
        fixed, per_byte = float(np.sum(1 / y) / np.sum(1 / y**2)), 0.0
    residuals = (fixed + per_byte * x) / y - 1
    return Line(fixed, per_byte, float(np.std(residuals)))


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring all-reduce of n bytes over p ranks: ``call + 2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma``.

    ``beta`` is the link's own seconds per byte, as messages between two ranks tell it; ``gamma`` is what is left, which
    is the summing. Two group sizes and more tell ``call`` from ``alpha``; of a single one, all is alpha's. (Thakur,
    Rabenseifner and Gropp 2005.) ``spread`` is the standard deviation of the relative residuals.
    """

    collective: str
    algorithm: str
    call: float
    alpha: float
    beta: float
    gamma: float
    spread: float

    def seconds(self, size: float, ranks: int) -> float:
        """Return the time of a size over a number of ranks."""
        share = (ranks - 1) / ranks
        return self.call + 2 * (ranks - 1) * self.alpha + share * size * (2 * self.beta + self.gamma)


def fit_ring(rows: Sequence[tuple[float, int, float]], beta: float) -> Ring:
    """Return the ring with the least squared relative residuals over rows of (bytes, ranks, seconds).

    >>> rows = [(n, p, 1e-4 + 2 * (p - 1) * 1e-5 + (p - 1) / p * n * 3e-9) for n in (0, 1e6, 1e7) for p in (2, 4, 8)]
    >>> ring = fit_ring(rows, 1e-9)
    >>> round(ring.call, 7), round(ring.alpha, 8), round(ring.gamma * 1e9, 3)
    (0.0001, 1e-05, 1.0)
    """
    sizes, ranks, seconds = (np.asarray(column, float) for column in zip(*rows))
    share = (ranks - 1) / ranks
    columns = [np.ones_like(seconds), 2 * (ranks - 1), share * sizes]
    if len(set(ranks.tolist())) == 1:
        columns[0] = np.zeros_like(seconds)
    answer = _not_negative(np.stack(columns, axis=1) / seconds[:, None])
    call, alpha, per_byte = (float(part) for part in answer)
    beta = min(beta, per_byte / 2) if beta else per_byte / 2
    residuals = (np.stack(columns, axis=1) @ answer) / seconds - 1
    return Ring("all-reduce", "ring", call, alpha, beta, per_byte - 2 * beta, float(np.std(residuals)))


def _not_negative(rows: np.ndarray) -> np.ndarray:
    """Return the x >= 0 with the least squared ``rows @ x - 1``: few columns, so every subset of them is tried."""
    count = rows.shape[1]
    best, least = np.zeros(count), float(len(rows))
    for chosen in range(1, 1 << count):
        kept = [column for column in range(count) if chosen >> column & 1 and rows[:, column].any()]
        if not kept:
            continue
        part, *_ = np.linalg.lstsq(rows[:, kept], np.ones(len(rows)), rcond=None)
        if (part < 0).any():
            continue
        left = float(np.sum((rows[:, kept] @ part - 1) ** 2))
        if left < least:
            best, least = np.zeros(count), left
            best[kept] = part
    return best
