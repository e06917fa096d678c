"""allreduce: the tasks of a step by the bucket queue, and its memory.

    layer l's gradients are ready at r_l; a bucket starts at max(its last r_l, the end of the bucket before it);
    step = max(end of backward, end of the last bucket) + optimizer                     (Li et al. 2020; MG-WFBP)

A library that runs several collectives of a communicator at once hides the latency of one behind the bytes of another;
the bytes share the link.

Workers that differ by chance wait for the slowest of them before the last bucket is through: with steps of standard
deviation s, p of them lose s * E[max of p standard normals] a step.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

from paceline.engine.collective import all_reduce
from paceline.engine.group import group_of
from paceline.engine.program import Builder
from paceline.strategy.allreduce.bucket import buckets, ready_order
from paceline.strategy.allreduce.plan import COMPRESSIONS
from paceline.strategy.compute import add_backward, add_forward, add_optimizer, add_start
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import replica_memory
from paceline.workload.device import find_device, is_virtual
from paceline.workload.workload import Workload


def step(situation: Situation) -> Step:
    """Return one step of one replica; all of them do the same."""
    plan, cluster = situation.plan, situation.cluster
    timing = situation.timing
    workload = situation.profile.workload
    group = group_of(cluster)
    passes = int(plan.knobs["accumulate"])
    build = Builder()
    device = build.role("device", plan.devices)
    compute = build.stream("compute", device)
    # Where ranks share the cores that compute, a transfer cannot hide behind the backward: it takes its turn.
    shared = group.backend.on_device
    queue = compute if shared else build.stream("all-reduce", device, group.backend.concurrent)
    route = () if shared else (build.wire(group.where, group.bandwidth),)
    done = add_start(build, compute, timing, passes)  # the loader brings all passes' samples at once
    for _ in range(passes - 1):
        done = add_forward(build, compute, workload, timing, [done])
        done = add_backward(build, compute, workload, timing, [done]).last
    done = add_forward(build, compute, workload, timing, [done])
    copies = _copy_seconds(workload, cluster.device)
    backward = add_backward(build, compute, workload, timing, [done], copies)
    ready = list(ready_order([layer.parameter_sizes for layer in workload.layers]))
    sent = [backward.last]
    for number, bucket in enumerate(buckets((size for _, size in ready), float(plan.knobs["bucket_mb"]))):
        size = travelling_bytes(bucket.bytes, workload.precision, str(plan.knobs["compression"]))
        cost = all_reduce(group, size, str(plan.knobs["algorithm"]))
        after = backward.tasks[ready[bucket.members[-1]][0]] if plan.knobs["overlap"] else backward.last
        name = f"all-reduce {number} ({cost.algorithm})"
        alone = cost.seconds if shared else cost.fixed
        # Bytes as they would cross the link that bounds the group: hops on other links and sums are among them.
        moved = 0.0 if shared else (cost.seconds - cost.fixed) * group.bandwidth / 8
        sent.append(build.transfer(name, moved, route, alone, [after], device=device, stream=queue))
    if wait := slowest_of(plan.devices) * timing.jitter * timing.step_seconds:
        others = build.stream("others", device)
        sent = [build.transfer("wait for the slowest", 0, (), wait, sent, device=device, stream=others)]
    add_optimizer(build, compute, timing, sent)
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device * passes,
        network=group.where,
        network_spread=group.spread or 0.1,
        notes=cluster.guessed(),
    )


def slowest_of(workers: int) -> float:
    """Return the expected maximum of standard normals (Blom 1958; 1 % off from 2 to 1000).

    >>> [round(slowest_of(n), 2) for n in (1, 2, 4, 8)]
    [0.0, 0.59, 1.05, 1.43]
    """
    return NormalDist().inv_cdf((workers - 0.375) / (workers + 0.25)) if workers > 1 else 0.0


def travelling_bytes(size: int, precision: str, compression: str) -> float:
    """Return the bytes that a bucket of gradients becomes on the wire."""
    width = 8 if precision == "fp64" else 4
    return size * min(COMPRESSIONS[compression], width) / width if compression != "none" else size


def _copy_seconds(workload: Workload, device_name: str) -> list[float]:
    """Return, per layer, the copy of its gradients into their bucket: read once, write once.

    A virtual device makes no copies; what the machine behind it does meanwhile is not its time.
    """
    if is_virtual(device_name):
        return [0.0] * len(workload.layers)
    device = find_device(device_name)
    rate = 0.7 * device.memory_bandwidth / 8
    return [2 * layer.gradient_bytes / rate for layer in workload.layers]


def memory(situation: Situation) -> Memory:
    """Return a replica's memory: gradients are views into the buckets, compression needs the largest bucket again."""
    workload, knobs = situation.profile.workload, situation.plan.knobs
    compression = str(knobs["compression"])
    extra = 0
    if compression != "none":
        sizes = (size for _, size in ready_order([layer.parameter_sizes for layer in workload.layers]))
        largest = max((bucket.bytes for bucket in buckets(sizes, float(knobs["bucket_mb"]))), default=0)
        extra = int(travelling_bytes(largest, workload.precision, compression))
    memory = replica_memory(situation, extra)
    # The samples of all passes are on the device from the step's start.
    return replace(memory, inputs=memory.inputs * int(knobs["accumulate"]))
