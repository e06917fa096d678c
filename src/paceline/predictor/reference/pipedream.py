"""PipeDream's planner as a predictor (Harlap et al. 2018; Narayanan et al. 2019).

    seconds between mini-batches = A(layers, workers)        see engine/replication.py for A, its symbols and its error

A global batch of W mini-batches, one for each worker as in data parallel training, takes W times that.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.engine.replication import Level, Replication, replicated


def planned(
    costs: Sequence[float], cut_bytes: Sequence[float], weight_bytes: Sequence[float], levels: Sequence[Level]
) -> Replication:
    """Return the planner's stages for one mini-batch; levels of one worker are left out."""
    return replicated(costs, cut_bytes, weight_bytes, [level for level in levels if level.workers > 1] or [levels[0]])


def estimated_seconds(plan: Replication) -> float:
    """Return the seconds of one mini-batch a worker.

    >>> estimated_seconds(planned([1, 1], [0, 0], [0, 0], [Level(2, 8e9)]))   # two mini-batches of 2 s on two workers
    2.0
    """
    return plan.workers * plan.seconds
