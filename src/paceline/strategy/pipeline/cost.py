"""The tasks of one step of a flushed pipeline: passes in their order, transfers between, exchange, optimizer.

    M micro-batches over K equal stages without transfers:  (M + K - 1)(f + b)     bubble (K - 1) / (M + K - 1)

Recomputing a stage's forward costs its time again in front of its backward. Replicas of a pipeline average the
gradients of each stage when its last backward is done. One pipeline is played, the one whose neighbours are furthest
apart, and its stages share the NICs of their hosts. Known error: where pipelines straddle hosts, two may meet on a NIC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from paceline.engine.collective import all_reduce
from paceline.engine.group import Group, group_of
from paceline.engine.program import Builder, Floats, Ints, Work
from paceline.strategy.contract import Situation, Step
from paceline.strategy.lanes import overlap_slowdown
from paceline.strategy.pipeline.links import Links, links_of
from paceline.strategy.pipeline.order import Pass
from paceline.strategy.pipeline.shape import Shape, shape_of
from paceline.strategy.pipeline.skeleton import Skeleton, skeleton
from paceline.strategy.pipeline.split import Held, Ranges, stage_ranges_of
from paceline.workload.arrays import layer_arrays


def pipeline_step(situation: Situation, schedule: str, recompute: bool = False) -> Step:
    """Return one step of one pipeline; its replicas do the same."""
    shape = shape_of(situation.plan)
    build = Builder()
    links = links_of(build, situation.cluster, shape)
    ranges = stage_ranges_of(situation, shape, links, Held(schedule, recompute))
    bones = skeleton(schedule, shape.devices, shape.virtual, shape.micro_batches)
    slowdown = overlap_slowdown(situation)
    roles = [build.role(f"stage {device}", shape.replicas, slowdown) for device in range(shape.devices)]
    streams = np.array([build.stream("compute", role) for role in roles])
    starts = _add_starts(build, situation, shape, streams)
    seconds = _pass_seconds(situation, shape, ranges, recompute)
    base = _add_passes(build, shape, bones, seconds, streams, np.array(roles))
    build.follow(base + bones.follows[0], base + bones.follows[1])
    build.follow(base + bones.first, np.array(starts))
    _add_transfers(build, situation, shape, links, bones, base, ranges, roles)
    _add_ends(build, situation, shape, links, bones, base, ranges, roles, streams.tolist())
    plan = situation.plan
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        network="the links between the stages",
        network_spread=situation.cluster.network.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def _add_starts(build: Builder, situation: Situation, shape: Shape, streams: Floats) -> list[int]:
    """Add the loop on every device, behind the wait for the batch on the first; return what their passes follow."""
    timing = situation.timing_at(shape.micro_size)
    starts = []
    for device, stream in enumerate(streams.tolist()):
        wait = timing.data_seconds * shape.micro_batches if device == 0 else 0.0
        data = build.task("data", Work.DATA, stream, wait)
        starts.append(build.task("loop", Work.OVERHEAD, stream, timing.overhead_seconds, [data]))
    return starts


def _pass_seconds(situation: Situation, shape: Shape, ranges: Ranges, recompute: bool) -> Floats:
    """Return the seconds of a micro-batch's passes, [forward or backward, stage]."""
    timing = situation.timing_at(shape.micro_size)
    firsts = [first for first, _ in ranges]
    forward = np.add.reduceat(np.array(timing.forward_seconds), firsts)
    backward = np.add.reduceat(np.array(timing.backward_seconds), firsts)
    return np.stack([forward, backward + forward if recompute else backward])


def _add_passes(build: Builder, shape: Shape, bones: Skeleton, seconds: Floats, streams: Ints, roles: Ints) -> int:
    """Add the forwards and backwards of all devices, without what they wait for; return the first."""
    firsts = []
    for name, part in (("forward", slice(bones.forwards)), ("backward", slice(bones.forwards, None))):
        device, stage = bones.device[part], bones.stage[part]
        labels = _labels(bones.micro[part], stage, shape.virtual)
        costs = seconds[bones.kind[part], stage]
        firsts.append(build.tasks(name, labels, Work.COMPUTE, streams[device], costs, device=roles[device]).start)
    return firsts[0]


def _labels(micro: Ints, stage: Ints, virtual: int) -> Callable[[int], str]:
    if virtual == 1:
        return lambda place: str(micro[place])
    return lambda place: f"{micro[place]} of stage {stage[place]}"


def _add_transfers(
    build: Builder,
    situation: Situation,
    shape: Shape,
    links: Links,
    bones: Skeleton,
    base: int,
    ranges: Ranges,
    roles: list[int],
) -> None:
    """Add what crosses the cuts: activations to the next stage, their gradients back."""
    cut = layer_arrays(situation.profile.workload).cut * shape.micro_size
    crossing = np.array([cut[last - 1] for _, last in ranges])
    kind, stage = bones.kind[bones.sent_from], bones.stage[bones.sent_from]
    makers, takers = bones.device[bones.sent_from], bones.device[bones.sent_to]
    sizes = np.where(kind == Pass.FORWARD, crossing[stage], crossing[stage - 1])
    sent = links.send(
        lambda place: (
            f"{'activations' if kind[place] == Pass.FORWARD else 'gradients'} {bones.micro[bones.sent_from[place]]}"
        ),
        sizes,
        makers,
        takers,
        np.array(roles),
        base + bones.sent_from,
    )
    build.follow(base + bones.sent_to, np.arange(sent.start, sent.stop))


def _add_ends(
    build: Builder,
    situation: Situation,
    shape: Shape,
    links: Links,
    bones: Skeleton,
    base: int,
    ranges: Ranges,
    roles: list[int],
    streams: list[int],
) -> None:
    """Add the average over replicas and the optimizer, device by device."""
    gradient = np.add.reduceat(layer_arrays(situation.profile.workload).gradient, [first for first, _ in ranges])
    optimizer = situation.timing_at(shape.micro_size).optimizer_seconds
    group = replica_group(situation, shape) if shape.replicas > 1 else None
    for device in range(shape.devices):
        size = float(gradient[device :: shape.devices].sum())
        done = base + int(bones.last[device])
        if group is not None:
            done = add_average(build, links, group, f"average of stage {device}", size, device, roles[device], done)
        share = size / max(float(gradient.sum()), 1.0)
        build.task("optimizer", Work.COMPUTE, streams[device], optimizer * share, [done])


def add_average(
    build: Builder, links: Links, group: Group, name: str, size: float, rank: int, role: int, after: int
) -> int:
    """Add the all-reduce of a stage's gradients among its replicas, on the NIC that the host's other stages use too."""
    cost = all_reduce(group, size)
    if group.hosts > 1:
        wire, rate = links.nic(rank)
    else:
        wire, rate = build.wire(f"{name}, links of a host", group.bandwidth), group.bandwidth
    moved = (cost.seconds - cost.fixed) * rate / 8
    return build.transfer(f"{name} ({cost.algorithm})", moved, (wire,), cost.fixed, [after], device=role)


def replica_group(situation: Situation, shape: Shape) -> Group:
    """Return the group of the devices that hold the same stage: one of each pipeline."""
    cluster = situation.cluster
    size = cluster.devices_per_host
    beside = max(size // shape.devices, 1) if size % shape.devices == 0 else 1  # replicas in one host
    beside = min(beside, shape.replicas)
    under = [cluster.switch_of(place * shape.devices) for place in range(beside)]
    islands = () if cluster.spans_switches else tuple(under.count(switch) for switch in dict.fromkeys(under))
    return replace(
        group_of(cluster),
        hosts=max(shape.replicas // beside, 1),
        per_host=beside,
        islands=islands if len(islands) > 1 else (),
        curves=(),
    )
