"""What waiting for the slowest of several equals costs."""

from __future__ import annotations

import math
from statistics import NormalDist

from paceline.workload.profile import Timing


def slowest_of(workers: int) -> float:
    """Return the expected maximum of standard normals (Blom 1958; 1 % off from 2 to 1000).

    >>> [round(slowest_of(n), 2) for n in (1, 2, 4, 8)]
    [0.0, 0.59, 1.05, 1.43]
    """
    return NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25)) if workers > 1 else 0.0


def slowest_seconds(timing: Timing, workers: int, steps: int = 1) -> float:
    """Return what workers that differ lose where all wait, after ``steps`` of them, for the slowest.

    Steps by chance s apart (relative) and devices v apart lose E[max of p standard normals] * sqrt(n s^2 + n^2 v^2) in
    n steps: chance evens out, a slower device stays slower.
    """
    apart = math.hypot(timing.jitter * math.sqrt(steps), timing.variation * steps)
    return slowest_of(workers) * apart * timing.step_seconds
