"""Robust statistics of repeated times: a machine's hiccups are long and one-sided, so medians everywhere."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# For a normal distribution: sigma = 1.4826 MAD; the median's standard error is sqrt(pi/2) sigma / sqrt(n).
_SIGMA_OF_MAD = 1.4826
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
Z_80, Z_95 = 1.2816, 1.9600  # two-sided


def robust_sigma(values: Sequence[float]) -> float:
    """Return the standard deviation that the median absolute deviation stands for."""
    middle = statistics.median(values)
    return _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in values)


def median_half_width(values: Sequence[float], z: float = Z_95) -> float:
    """Return the relative half-width of the median's confidence interval; infinite below three values."""
    if len(values) < 3:
        return math.inf
    return z * _MEDIAN_ERROR * robust_sigma(values) / math.sqrt(len(values)) / statistics.median(values)


def trimmed_mean(values: Sequence[float], share: float = 0.1) -> float:
    """Return the mean without the largest and smallest ``share`` of the values.

    Between the median, which forgets the hiccups that an epoch will really have, and the mean, which one pause ruins.

    >>> trimmed_mean([1, 2, 3, 4, 5, 6, 7, 8, 9, 1000])
    5.5
    """
    ordered = sorted(values)
    cut = int(len(ordered) * share)
    kept = ordered[cut : len(ordered) - cut] if cut else ordered
    return statistics.fmean(kept)
