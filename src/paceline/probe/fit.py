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
