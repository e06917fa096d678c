"""pipedream: mini-batches through a pipeline that is never flushed, and a steady window of them.

In steady state a mini-batch leaves every max over stages of (compute / replicas, transfers, exchange / replicas): the
bound of PipeDream's planner, which falls out of the timeline where transfers hide. A stage's replicas average their
gradients in the background, round by round: one round's travel while the next one's are made, so a backward waits for
the average before the last. (Were it to wait for the last, stages 1-3 of equal shares would take 1.2 times the bound.)

Known: the bound is not always within reach of the order. Three stages of shares 1-2-1, all workers equally busy, take
1.5 times as long: a mini-batch is under way for as long as NOAM of them take, so none may wait, and some must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from paceline.engine.collective import all_reduce
from paceline.engine.group import Group, group_of
from paceline.engine.program import Builder, Ints, Work
from paceline.engine.replication import ReplicatedStage
from paceline.strategy.contract import Situation, Step
from paceline.strategy.lanes import overlap_slowdown
from paceline.strategy.pipedream.partition import stages_of
from paceline.strategy.pipedream.skeleton import Skeleton, lengths, skeleton
from paceline.strategy.pipeline.links import Links
from paceline.strategy.pipeline.order import Pass
from paceline.workload.arrays import layer_arrays


def step(situation: Situation) -> Step:
    """Return mini-batches through the whole pipeline, the window between two backwards of the first stage."""
    plan, stages = situation.plan, stages_of(situation)
    replicas = tuple(stage.replicas for stage in stages)
    warm, window, batches = lengths(replicas)
    bones = skeleton(replicas, batches)
    build = Builder()
    links = Links(build, situation.cluster)
    slowdown = overlap_slowdown(situation)
    names = [f"stage {n}" + (f".{r}" if count > 1 else "") for n, count in enumerate(replicas) for r in range(count)]
    roles = np.array([build.role(name, 1, slowdown) for name in names])
    streams = np.array([build.stream("compute", role) for role in roles.tolist()])
    base = _add_passes(build, situation, bones, stages, streams)
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


def _add_passes(
    build: Builder, situation: Situation, bones: Skeleton, stages: Sequence[ReplicatedStage], streams: Ints
) -> int:
    """Add the passes worker by worker, forwards behind the loop, on the input stage behind data; return the first."""
    timing = situation.timing_at(situation.plan.batch_per_device)
    firsts = [stage.first for stage in stages]
    seconds = (np.array(timing.forward_seconds), np.array(timing.backward_seconds))
    added = []
    for name, costs, part in zip(
        ("forward", "backward"), seconds, (slice(bones.forwards), slice(bones.forwards, None))
    ):
        batch, each = bones.batch[part], np.add.reduceat(costs, firsts)[bones.stage[part]]
        added.append(build.tasks(name, _numbers(batch), Work.COMPUTE, streams[bones.worker[part]], each))
    forwards, base = added[0], added[0].start
    workers, numbers = streams[bones.worker[: bones.forwards]], _numbers(bones.batch[: bones.forwards])
    loops = build.tasks("loop", numbers, Work.OVERHEAD, workers, np.full(len(forwards), timing.overhead_seconds))
    entered = np.arange(loops.start, loops.stop)  # by forward: the task that its worker begins with
    build.follow(np.array(forwards), entered)
    if timing.data_seconds:
        inputs = np.flatnonzero(bones.stage[: bones.forwards] == 0)
        waits = np.full(len(inputs), timing.data_seconds)
        data = build.tasks("data", _numbers(bones.batch[inputs]), Work.DATA, workers[inputs], waits)
        build.follow(entered[inputs], np.array(data))
        entered[inputs] = np.array(data)
    later, before = bones.follows
    begins = np.concatenate([entered, base + np.arange(bones.forwards, len(bones.kind))])
    build.follow(begins[later], base + before)
    return base


def _numbers(batch: Ints) -> Callable[[int], str]:
    return lambda place: str(batch[place])


def _add_transfers(
    build: Builder,
    situation: Situation,
    links: Links,
    bones: Skeleton,
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
    sent = links.send(
        lambda n: f"{'gradients' if bones.kind[made[n]] else 'activations'} {bones.batch[made[n]]}",
        crossing[np.minimum(bones.stage[made], bones.stage[wanted])],
        makers,
        takers,
        roles,
        base + made,
    )
    build.follow(base + wanted, np.arange(sent.start, sent.stop))


def _add_updates(
    build: Builder,
    situation: Situation,
    links: Links,
    bones: Skeleton,
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
            device = int(roles[rank])
            after = _add_averages(build, situation, links, stage, number, rank, size, backwards, device)
        workers = bones.worker[bones.place[Pass.BACKWARD, number]]
        updates = build.tasks(
            "optimizer", str, Work.COMPUTE, streams[workers], np.full(len(backwards), seconds), priority=-1
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
    device: int,
) -> Ints:
    """Add the average of every round of a stage's replicas; return, for each mini-batch, the one that it is part of."""
    group = _group(situation, rank, stage.replicas)
    cost = all_reduce(group, size)
    wire, rate = links.nic(rank) if group.hosts > 1 else (build.wire(f"links of stage {number}", group.bandwidth), 0.0)
    moved = (cost.seconds - cost.fixed) * (rate or group.bandwidth) / 8
    rounds = np.arange(len(backwards)) // stage.replicas
    averages = build.transfers(
        f"average of stage {number} ({cost.algorithm})",
        str,
        np.full(int(rounds[-1]) + 1, moved),
        np.array([[wire]]),
        cost.fixed,
        device=device,
    )
    numbers = np.array(averages)
    build.follow(numbers[rounds], backwards)
    build.follow(numbers[1:], numbers[:-1])
    late = rounds > 1
    build.follow(backwards[late], numbers[rounds[late] - 2])
    return numbers[rounds]


def _group(situation: Situation, rank: int, replicas: int) -> Group:
    """Return the group of a stage's workers, neighbours in rank; over hosts in unequal parts all are apart."""
    size = situation.cluster.devices_per_host
    hosts = (rank + replicas - 1) // size - rank // size + 1
    if replicas % hosts:
        hosts = replicas
    return replace(group_of(situation.cluster), hosts=hosts, per_host=replicas // hosts, islands=(), curves=())
