"""pipedream: mini-batches through a pipeline that is never flushed, a steady window of them, and its memory.

In steady state a mini-batch leaves every max over stages of (compute / replicas, transfers, exchange / replicas): the
bound of PipeDream's planner, which falls out of the timeline where transfers hide. A stage's replicas average their
gradients in the background, round by round; the next round's backward needs the buffer, so it waits for the one before.
The loop around a step is taken as part of the forwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from paceline.engine.collective import all_reduce
from paceline.engine.group import Group, group_of
from paceline.engine.program import Builder, Ints, Work
from paceline.engine.replication import ReplicatedStage
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import stage_memory
from paceline.strategy.lanes import overlap_slowdown
from paceline.strategy.pipedream.order import admitted, pipedream
from paceline.strategy.pipedream.partition import stages_of
from paceline.strategy.pipeline.links import Links
from paceline.strategy.pipeline.order import Pass
from paceline.workload.arrays import layer_arrays

_LONGEST = 60  # mini-batches of a window: as many as the replicas repeat after, where that is not more


@dataclass(frozen=True, slots=True, eq=False)
class _Skeleton:
    """Passes worker by worker in their order; ``place`` finds them by kind, stage and mini-batch."""

    worker: Ints
    stage: Ints
    kind: Ints
    batch: Ints
    place: Ints


@lru_cache(maxsize=64)
def _skeleton(replicas: tuple[int, ...], batches: int) -> _Skeleton:
    workers = [(stage, replica) for stage, count in enumerate(replicas) for replica in range(count)]
    orders = [list(pipedream(replicas, batches, stage, replica)) for stage, replica in workers]
    worker = np.repeat(np.arange(len(workers)), [len(order) for order in orders])
    ops = [op for order in orders for op in order]
    stage, kind, batch = (np.array(values) for values in zip(*((op.stage, op.kind, op.micro) for op in ops)))
    place = np.empty((2, len(replicas), batches), np.int64)
    place[kind, stage, batch] = np.arange(len(ops))
    return _Skeleton(worker, stage, kind, batch, place)


def step(situation: Situation) -> Step:
    """Return mini-batches through the whole pipeline, the window between two backwards of the first stage."""
    plan, stages = situation.plan, stages_of(situation)
    replicas = tuple(stage.replicas for stage in stages)
    warm, window, batches = _lengths(replicas)
    bones = _skeleton(replicas, batches)
    build = Builder()
    links = Links(build, situation.cluster)
    slowdown = overlap_slowdown(situation)
    names = [f"stage {n}" + (f".{r}" if count > 1 else "") for n, count in enumerate(replicas) for r in range(count)]
    roles = np.array([build.role(name, 1, slowdown) for name in names])
    streams = np.array([build.stream("compute", role) for role in roles.tolist()])
    seconds = _pass_seconds(situation, stages)
    passes = build.tasks(
        "",
        lambda n: f"{'backward' if bones.kind[n] else 'forward'} {bones.batch[n]}",
        Work.COMPUTE,
        streams[bones.worker],
        seconds[bones.kind, bones.stage],
        device=roles[bones.worker],
    )
    base = passes.start
    successive = np.flatnonzero(bones.worker[1:] == bones.worker[:-1])
    build.follow(base + successive + 1, base + successive)
    _add_transfers(build, situation, links, bones, base, stages, roles)
    _add_updates(build, situation, links, bones, base, stages, roles, streams)
    first, last = (base + int(bones.place[Pass.BACKWARD, 0, batch]) for batch in (warm, warm + window))
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        batches=window / plan.devices,
        window=(first, last),
        network="the links between the stages",
        network_spread=situation.cluster.network.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def _lengths(replicas: Sequence[int]) -> tuple[int, int, int]:
    """Return mini-batches to fill the pipeline, in the window, and in all: some more keep it full to the window's end."""
    workers, repeat = sum(replicas), math.lcm(*replicas)
    repeat = repeat if repeat <= _LONGEST else replicas[0] * max(_LONGEST // replicas[0], 1)
    warm = repeat * math.ceil(2 * workers / repeat)
    window = repeat * math.ceil(2 * workers / repeat)
    return warm, window, warm + window + 2 * workers


def _pass_seconds(situation: Situation, stages: Sequence[ReplicatedStage]) -> np.ndarray:
    timing = situation.timing_at(situation.plan.batch_per_device)
    firsts = [stage.first for stage in stages]
    forward = np.add.reduceat(np.array(timing.forward_seconds), firsts) + timing.overhead_seconds
    forward[0] += timing.data_seconds
    return np.stack([forward, np.add.reduceat(np.array(timing.backward_seconds), firsts)])


def _add_transfers(
    build: Builder,
    situation: Situation,
    links: Links,
    bones: _Skeleton,
    base: int,
    stages: Sequence[ReplicatedStage],
    roles: Ints,
) -> None:
    """Add activations to the next stage and their gradients back, between the workers that have the mini-batch."""
    if len(stages) == 1:
        return
    cut = layer_arrays(situation.profile.workload).cut * situation.plan.batch_per_device
    crossing = np.array([cut[stage.stop - 1] for stage in stages])
    forward, backward = bones.place
    made = np.concatenate([forward[:-1].ravel(), backward[1:].ravel()])
    wanted = np.concatenate([forward[1:].ravel(), backward[:-1].ravel()])
    makers, takers = bones.worker[made], bones.worker[wanted]
    count = len(roles)
    routes, latency = np.full((count, count, 2), -1), np.zeros((count, count))
    for maker, taker in {*zip(makers.tolist(), takers.tolist())}:
        route = links.route(maker, taker)
        routes[maker, taker, : len(route)] = route
        latency[maker, taker] = links.latency(maker, taker)
    sent = build.transfers(
        "send",
        lambda n: f"{'gradients' if bones.kind[made[n]] else 'activations'} {bones.batch[made[n]]}",
        crossing[np.minimum(bones.stage[made], bones.stage[wanted])],
        routes[makers, takers],
        latency[makers, takers],
        device=roles[takers],
    )
    numbers = np.arange(sent.start, sent.stop)
    build.follow(numbers, base + made)
    build.follow(base + wanted, numbers)


def _add_updates(
    build: Builder,
    situation: Situation,
    links: Links,
    bones: _Skeleton,
    base: int,
    stages: Sequence[ReplicatedStage],
    roles: Ints,
    streams: Ints,
) -> None:
    """Add the optimizer behind every backward; where a stage has replicas, behind the average of their round."""
    gradient = layer_arrays(situation.profile.workload).gradient
    optimizer = situation.timing_at(situation.plan.batch_per_device).optimizer_seconds
    rank = 0
    for number, stage in enumerate(stages):
        size = float(gradient[stage.first : stage.stop].sum())
        seconds = optimizer * size / max(float(gradient.sum()), 1.0)
        backwards = base + bones.place[Pass.BACKWARD, number]
        if stage.replicas == 1:
            after = backwards
        else:
            after = _add_averages(build, situation, links, stage, number, rank, size, backwards, roles)
        workers = bones.worker[bones.place[Pass.BACKWARD, number]]
        label = bones.place.shape[2]
        updates = build.tasks(
            "optimizer",
            [str(batch) for batch in range(label)],
            Work.COMPUTE,
            streams[workers],
            np.full(label, seconds),
            priority=-1,
            device=roles[workers],
        )
        build.follow(np.array(updates), after)
        rank += stage.replicas


def _add_averages(
    build: Builder,
    situation: Situation,
    links: Links,
    stage: ReplicatedStage,
    number: int,
    rank: int,
    size: float,
    backwards: Ints,
    roles: Ints,
) -> Ints:
    """Add the average of every round of a stage's replicas; return, for each mini-batch, the one that it is part of."""
    group = _group(situation, rank, stage.replicas)
    cost = all_reduce(group, size)
    wire, rate = links.nic(rank) if group.hosts > 1 else (build.wire(f"links of stage {number}", group.bandwidth), 0.0)
    moved = (cost.seconds - cost.fixed) * (rate or group.bandwidth) / 8
    after = np.empty(len(backwards), np.int64)
    before: int | None = None
    for round_, first in enumerate(range(0, len(backwards), stage.replicas)):
        own = backwards[first : first + stage.replicas]
        sent = build.transfer(
            f"average {round_} of stage {number} ({cost.algorithm})",
            moved,
            (wire,),
            cost.fixed,
            own.tolist(),
            device=int(roles[rank]),
        )
        if before is not None:
            build.follow(own, np.full(len(own), before))
        after[first : first + stage.replicas] = sent
        before = sent
    return after


def _group(situation: Situation, rank: int, replicas: int) -> Group:
    """Return the group of a stage's workers, which are neighbours in rank."""
    size = situation.cluster.devices_per_host
    hosts = (rank + replicas - 1) // size - rank // size + 1
    return replace(group_of(situation.cluster), hosts=hosts, per_host=max(replicas // hosts, 1), islands=(), curves=())


def memory(situation: Situation) -> Memory:
    """Return the bytes of the fullest worker: every mini-batch in flight keeps its activations and its weights."""
    stages = stages_of(situation)
    replicas = tuple(stage.replicas for stage in stages)
    workload = situation.profile.workload
    every = []
    for number, stage in enumerate(stages):
        flying = admitted(replicas, number)
        every.append(
            stage_memory(
                workload,
                situation.profile.optimizer,
                batch=situation.plan.batch_per_device,
                layers=(stage.first, stage.stop),
                in_flight=flying,
                versions=flying if situation.plan.knobs["stash"] else 1,
            )
        )
    return max(every, key=lambda found: found.total)
