"""allreduce: the tasks of a step by the bucket queue, and its memory.

    layer l's gradients are ready at r_l; a bucket starts at max(its last r_l, the end of the bucket before it);
    step = max(end of backward, end of the last bucket) + optimizer                     (Li et al. 2020; MG-WFBP)

A library that runs several collectives of a communicator at once hides the latency of one behind the bytes of another;
the bytes share the link.

Workers that differ by chance wait for the slowest of them before the last bucket is through (:mod:`..slowest`).
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.engine.collective import all_reduce
from paceline.engine.program import Builder, Work
from paceline.strategy.allreduce.bucket import LayerBucket, layer_buckets
from paceline.strategy.allreduce.compression import travelling_bytes
from paceline.strategy.allreduce.powersgd import factors
from paceline.strategy.compute import add_backward, add_forward, add_optimizer, add_start
from paceline.strategy.contract import Knob, Memory, Situation, Step
from paceline.strategy.footprint import replica_memory
from paceline.strategy.lanes import Lanes, add_lanes, copy_seconds, wait_for_slowest
from paceline.workload.device import find_device


def step(situation: Situation) -> Step:
    """Return one step of one replica; all of them do the same."""
    plan, timing = situation.plan, situation.timing
    workload = situation.profile.workload
    passes = int(plan.knobs["accumulate"])
    build = Builder()
    # Where ranks share the cores that compute, a transfer cannot hide behind the backward: it takes its turn.
    lanes = add_lanes(build, situation, "all-reduce")
    compute, group = lanes.compute, lanes.group
    done = add_start(build, compute, timing, passes)  # the loader brings all passes' samples at once
    for _ in range(passes - 1):
        done = add_forward(build, compute, workload, timing, [done])
        done = add_backward(build, compute, workload, timing, [done]).last
    done = add_forward(build, compute, workload, timing, [done])
    backward = add_backward(build, compute, workload, timing, [done], _copies(situation))
    sent = [backward.last]
    for number, bucket in enumerate(layer_buckets(workload, float(plan.knobs["bucket_mb"]))):
        after = backward.tasks[bucket.layer] if plan.knobs["overlap"] else backward.last
        if plan.knobs["compression"] == "powersgd":
            sent.append(_send_factors(build, situation, lanes, number, bucket, after))
            continue
        size = travelling_bytes(bucket.bytes, workload.precision, str(plan.knobs["compression"]))
        cost = all_reduce(group, size, str(plan.knobs["algorithm"]))
        sent.append(lanes.send(build, f"all-reduce bucket of {workload.layers[bucket.layer].name}", cost, [after]))
    sent = wait_for_slowest(build, lanes, timing, plan.devices, sent)
    add_optimizer(build, compute, timing, sent)
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device * passes,
        network=group.where,
        network_spread=group.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def _send_factors(
    build: Builder, situation: Situation, lanes: Lanes, number: int, bucket: LayerBucket, after: int
) -> int:
    """Add PowerSGD's three all-reduces of a bucket, one after the other, and the products between them."""
    knobs, width = situation.plan.knobs, 8 if situation.profile.workload.precision == "fp64" else 4
    found = factors(bucket, int(knobs["powersgd_rank"]), width)
    rate = find_device(situation.cluster.device).peak("linear", "fp32") / 2  # thin products reach half the peak at best
    task = after
    for name, size in (("vectors", found.plain), ("P", found.left), ("Q", found.right)):
        if name != "vectors":
            task = build.task(
                f"multiply for {name} {number}", Work.COMPUTE, lanes.compute, found.flops / 2 / rate, [task]
            )
        cost = all_reduce(lanes.group, size, str(knobs["algorithm"]))
        task = lanes.send(build, f"all-reduce of {name} {number}", cost, [task])
    return task


def _copies(situation: Situation) -> list[float]:
    """Return, per layer, the copy of its gradients into their bucket: read once, write once."""
    return [copy_seconds(situation, layer.gradient_bytes) for layer in situation.profile.workload.layers]


def memory(situation: Situation) -> Memory:
    """Return a replica's memory: gradients are views into the buckets, compression needs the largest bucket again."""
    knobs = situation.plan.knobs
    return replica_memory(
        situation,
        _compressed_bytes(situation, knobs),
        passes=int(knobs["accumulate"]),
        gradients_stay=bool(knobs["overlap"]),
    )


def _compressed_bytes(situation: Situation, knobs: Mapping[str, Knob]) -> int:
    """Return what compression holds: a bucket in another type, or PowerSGD's errors of all gradients and factors."""
    compression = str(knobs["compression"])
    if compression == "none":
        return 0
    workload = situation.profile.workload
    found = layer_buckets(workload, float(knobs["bucket_mb"]))
    if compression == "powersgd":
        parts = [factors(bucket, int(knobs["powersgd_rank"]), 4) for bucket in found]
        return workload.gradient_bytes + round(sum(part.left + part.right for part in parts))
    largest = max((bucket.bytes for bucket in found), default=0)
    return int(travelling_bytes(largest, workload.precision, compression))
