"""The stages of a PipeDream pipeline: by its planner, or as the user says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from paceline.engine.program import Builder
from paceline.engine.replication import Level, ReplicatedStage, replicated
from paceline.strategy.contract import Situation
from paceline.strategy.pipeline.links import Links
from paceline.strategy.pipeline.shape import Shape
from paceline.strategy.pipeline.split import stage_ranges_of
from paceline.workload.arrays import layer_arrays

_STAGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*(?:x\s*(\d+)\s*)?")


def stages_of(situation: Situation) -> tuple[ReplicatedStage, ...]:
    """Return a plan's stages: layers first up to stop, on so many workers each."""
    text = str(situation.plan.knobs["partition"])
    if text != "auto":
        return parse_partition(text)
    timing = situation.timing_at(situation.plan.batch_per_device)
    arrays, cluster = layer_arrays(situation.profile.workload), situation.cluster
    levels = []
    if cluster.devices_per_host > 1:
        slowest = min(cluster.between(0, device).payload_bandwidth for device in range(1, cluster.devices_per_host))
        levels.append((cluster.devices_per_host, slowest))
    if cluster.hosts > 1 or not levels:
        network = cluster.network.payload_bandwidth * cluster.nics / cluster.oversubscription
        levels.append((cluster.hosts, network))
    return _planned(
        tuple(map(sum, zip(timing.forward_seconds, timing.backward_seconds))),
        tuple((arrays.cut * situation.plan.batch_per_device).tolist()),
        tuple(arrays.gradient.tolist()),
        tuple(levels),
    )


def straight(situation: Situation) -> tuple[ReplicatedStage, ...]:
    """Return the most even stages of one worker each."""
    shape = Shape(situation.plan.devices, 1, 1, 1, situation.plan.batch_per_device)
    ranges = stage_ranges_of(situation, shape, Links(Builder(), situation.cluster))
    return tuple(ReplicatedStage(first, stop, 1) for first, stop in ranges)


@lru_cache(maxsize=128)
def _planned(
    costs: Sequence[float], cuts: Sequence[float], weights: Sequence[float], levels: Sequence[tuple[int, float]]
) -> tuple[ReplicatedStage, ...]:
    return replicated(costs, cuts, weights, [Level(workers, rate) for workers, rate in levels]).stages


def parse_partition(text: str) -> tuple[ReplicatedStage, ...]:
    """Return the stages that a text names: half-open ranges of layers, each with its replicas; ValueError for no such.

    >>> parse_partition("0-20x3, 20-54")
    (ReplicatedStage(first=0, stop=20, replicas=3), ReplicatedStage(first=20, stop=54, replicas=1))
    """
    found: list[ReplicatedStage] = []
    for part in text.split(","):
        match = _STAGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is no stage such as '0-20x3' (layers 0 up to 20 on 3 workers)")
        first, stop, replicas = int(match[1]), int(match[2]), int(match[3] or 1)
        if first != (found[-1].stop if found else 0) or stop <= first or replicas < 1:
            raise ValueError(f"stage {part.strip()!r} does not go on where the one before it ends")
        found.append(ReplicatedStage(first, stop, replicas))
    return tuple(found)


def partition_text(stages: Sequence[ReplicatedStage]) -> str:
    """Return the text of stages, which :func:`parse_partition` reads."""
    return ", ".join(f"{stage.first}-{stage.stop}x{stage.replicas}" for stage in stages)
