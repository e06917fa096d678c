"""A model's layers as the stages of a pipeline: by the partitioner, from the times at the micro-batch's size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from paceline.cluster.capacity import device_memory
from paceline.engine.interleave import interleaved
from paceline.engine.partition import balanced
from paceline.engine.stagememory import StageMemory
from paceline.errors import PacelineError
from paceline.strategy.contract import Situation
from paceline.strategy.pipeline.links import Links
from paceline.strategy.pipeline.order import flying
from paceline.strategy.pipeline.shape import Shape
from paceline.workload.arrays import layer_arrays
from paceline.workload.optimizer import STATE_COPIES

Ranges = tuple[tuple[int, int], ...]


_ROOM = 0.95  # of a device's memory for what the partitioner counts: the rest is for what lives for a moment


@dataclass(frozen=True, slots=True)
class Held:
    """How long a pipeline holds activations: the schedule that it runs, and whether it makes them again."""

    schedule: str
    recompute: bool = False


def stage_ranges_of(situation: Situation, shape: Shape, links: Links, held: Held | None = None) -> Ranges:
    """Return the layers of each stage, as half-open ranges.

    What is made least is the slowest of stages (forward and backward of a micro-batch) and of cuts, both directions.
    Where such a stage does not fit its device, a split is sought whose stages all do; without one it stays as it is,
    and the prediction says by how much it is too large.
    """
    timing = situation.timing_at(shape.micro_size)
    costs = tuple(map(sum, zip(timing.forward_seconds, timing.backward_seconds)))
    per_byte = max(links.seconds_per_byte(first, second) for first, second in pairwise(range(shape.devices)))
    cut = layer_arrays(situation.profile.workload).cut * shape.micro_size * per_byte
    cuts = tuple(cut.tolist())
    found = _ranges(costs, cuts, shape.devices, shape.virtual)
    if held is None:
        return found
    memory, capacity = _memory(situation, shape, held), _ROOM * device_memory(situation.cluster)
    if all(size <= capacity for size in _by_device(memory, found, shape)):
        return found
    try:
        return _split(costs, cuts, shape.devices, shape.virtual, memory)
    except PacelineError:
        return found


@lru_cache(maxsize=256)
def _ranges(costs: Sequence[float], cuts: Sequence[float], devices: int, virtual: int) -> Ranges:
    return _split(costs, cuts, devices, virtual, None)


def _split(
    costs: Sequence[float], cuts: Sequence[float], devices: int, virtual: int, memory: StageMemory | None
) -> Ranges:
    if virtual > 1:
        return interleaved(costs, cuts, devices, virtual, memory).stages
    return balanced(costs, cuts, devices, memory).stages


def _memory(situation: Situation, shape: Shape, held: Held) -> StageMemory:
    """Return what stages hold: weights, gradients and state once, activations for each micro-batch in flight."""
    arrays = layer_arrays(situation.profile.workload)
    numbers = dict(
        pair
        for device in range(shape.devices)
        for pair in flying(held.schedule, shape.devices, shape.virtual, shape.micro_batches, device)
    )
    return StageMemory(
        static_bytes=(arrays.parameter + (1 + STATE_COPIES[situation.profile.optimizer]) * arrays.gradient).tolist(),
        live_bytes=(arrays.live * shape.micro_size + arrays.fixed).tolist(),
        in_flight=[numbers[stage] for stage in range(shape.stages)],
        capacity=_ROOM * device_memory(situation.cluster),
        entering_bytes=(arrays.entering * shape.micro_size).tolist(),
        recompute=held.recompute,
    )


def _by_device(memory: StageMemory, ranges: Ranges, shape: Shape) -> list[float]:
    sizes = memory.of_stages(ranges)
    return [sum(sizes[device :: shape.devices]) for device in range(shape.devices)]
