"""A model's layers as the stages of a pipeline: by the partitioner, from the times at the micro-batch's size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from paceline.engine.interleave import interleaved
from paceline.engine.partition import balanced
from paceline.strategy.contract import Situation
from paceline.strategy.pipeline.links import Links
from paceline.strategy.pipeline.shape import Shape
from paceline.workload.arrays import layer_arrays

Ranges = tuple[tuple[int, int], ...]


def stage_ranges_of(situation: Situation, shape: Shape, links: Links) -> Ranges:
    """Return the layers of each stage, as half-open ranges.

    What is made least is the slowest of stages (forward and backward of a micro-batch) and of cuts, both directions.
    """
    timing = situation.timing_at(shape.micro_size)
    costs = tuple(map(sum, zip(timing.forward_seconds, timing.backward_seconds)))
    per_byte = max(links.seconds_per_byte(first, second) for first, second in pairwise(range(shape.devices)))
    cut = layer_arrays(situation.profile.workload).cut * shape.micro_size * per_byte
    return _ranges(costs, tuple(cut.tolist()), shape.devices, shape.virtual)


@lru_cache(maxsize=256)
def _ranges(costs: Sequence[float], cuts: Sequence[float], devices: int, virtual: int) -> Ranges:
    if virtual > 1:
        return interleaved(costs, cuts, devices, virtual).stages
    return balanced(costs, cuts, devices).stages
