"""A prediction with the whole reason: what is exposed, which stage is slow, and what would lift the bottleneck."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paceline.cluster.cluster import Cluster
from paceline.engine.play import Played
from paceline.engine.program import Work
from paceline.predictor.exposed import exposed_words
from paceline.predictor.predict import Length, PlayedPlan
from paceline.predictor.reason import bottleneck
from paceline.predictor.relief import relief
from paceline.workload.profile import Profile

_MOST = 100_000  # tasks of a step that is predicted again: a larger one takes seconds each time
_SLOW = 1.05  # of the mean: a stage below is like the others


def explained(profile: Profile, cluster: Cluster, found: PlayedPlan, length: Length) -> PlayedPlan:
    """Return a prediction whose bottleneck says what it consists of and what would lift it."""
    prediction = found.prediction
    sentence = bottleneck(
        prediction.breakdown,
        found.network,
        exposed_words(found.played, found.window),
        slowest_stage(found.played, found.window),
    )
    lift = relief(profile, cluster, prediction.plan, length) if len(found.played.program) <= _MOST else None
    return replace(
        found, prediction=replace(prediction, bottleneck="; ".join(part for part in (sentence, lift) if part))
    )


def slowest_stage(played: Played, window: tuple[float, float]) -> str:
    """Return which role computes longest and by how much, as the end of a sentence; nothing where all do as much."""
    program = played.program
    counts = np.array([0 if role.idle else role.count for role in program.roles])
    inside = np.minimum(played.end, window[1]) - np.maximum(played.start, window[0])
    own = np.flatnonzero((program.works == Work.COMPUTE) & (inside > 0) & (program.device >= 0))
    busy = np.bincount(program.device[own], inside[own], minlength=len(counts))
    total = float((busy * counts).sum())
    if np.count_nonzero(counts) < 2 or not total:
        return ""
    slowest = int(np.where(counts > 0, busy, -1.0).argmax())
    times = float(busy[slowest]) * int(counts.sum()) / total
    return f", and {program.roles[slowest].name} computes {times:.1f} x the mean" if times >= _SLOW else ""
