"""fsdp: the tasks of a step, unit by unit, and its memory.

    ZeRO-1, ZeRO-2   gather parameters before the forward, scatter a unit's gradients behind its backward
    ZeRO-3           gather a unit's parameters before its forward and again before its backward, scatter its gradients

Each collective moves (p-1)/p of the unit's bytes: 2, 2 and 3 times (p-1)/p n a step (Rajbhandari et al. 2020), less the
last unit's second gather: its backward follows its forward at once, and it stays. FSDP2 gathers one unit ahead: the
buffer of the unit before the last must be free first. On Gloo its gathers and scatters are waited for where they are
called, so nothing hides them.
"""

from __future__ import annotations

from dataclasses import replace

from paceline.engine.collective import collective
from paceline.engine.program import Builder, Work
from paceline.strategy.compute import add_backward, add_forward, add_start
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import stage_memory, takes_all_at_once, zero_shards
from paceline.strategy.fsdp.unit import units
from paceline.strategy.lanes import Lanes, add_lanes, copy_seconds, wait_for_slowest
from paceline.workload.arrays import layer_arrays


def step(situation: Situation) -> Step:
    """Return one step of one device; all of them do the same."""
    plan, timing, workload = situation.plan, situation.timing, situation.profile.workload
    arrays = layer_arrays(workload)
    build = Builder()
    lanes = add_lanes(build, situation, "gathers")
    waits = lanes.group.backend.name != "nccl"
    gathers = lanes.compute if waits else lanes.queue
    scatters = lanes.compute if waits else lanes.communicator(build, "scatters")
    ranges = list(units(arrays.parameter.tolist(), float(plan.knobs["wrap_mb"])))
    start = add_start(build, lanes.compute, timing)
    forward = add_forward(build, lanes.compute, workload, timing, [start])
    backward = add_backward(build, lanes.compute, workload, timing, [forward], _copies(situation))
    layers, names = len(workload.layers), workload.layer_names
    firsts, lasts = [first for first, _ in ranges], [last - 1 for _, last in ranges]
    begin = forward - layers + 1  # the forward's first task
    sizes = [float(arrays.parameter[first:last].sum()) for first, last in ranges]
    for number, (first, size) in enumerate(zip(firsts, sizes)):
        ahead = begin + lasts[number - 2] if number > 1 else start
        _gather(build, lanes, f"gather unit of {names[first]}", size, [ahead], begin + first, gathers)
    if plan.knobs["reshard"]:  # the last unit is needed at once and stays
        for number in range(len(ranges) - 2, -1, -1):
            ahead = backward.tasks[firsts[number + 2]] if number + 2 < len(ranges) else forward
            again = f"gather again unit of {names[firsts[number]]}"
            _gather(build, lanes, again, sizes[number], [ahead], backward.tasks[lasts[number]], gathers)
    sent = [backward.last]
    for number in range(len(ranges) - 1, -1, -1):
        first, last = ranges[number]
        cost = collective(lanes.group, "reduce-scatter", float(arrays.gradient[first:last].sum()))
        sent.append(lanes.send(build, f"scatter unit of {names[first]}", cost, [backward.tasks[first]], scatters))
    sent = wait_for_slowest(build, lanes, timing, plan.devices, sent)
    share = timing.optimizer_seconds / plan.devices
    build.task("optimizer", Work.COMPUTE, lanes.compute, share, sent)
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        network=lanes.group.where,
        network_spread=lanes.group.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def _gather(build: Builder, lanes: Lanes, name: str, size: float, after: list[int], before: int, queue: int) -> None:
    """Add the gather of a unit's parameters, which the unit's first task waits for."""
    sent = lanes.send(build, name, collective(lanes.group, "all-gather", size), after, queue, priority=-1)
    build.follow(before, [sent])


def _copies(situation: Situation) -> list[float]:
    """Return, per layer, the copy of its gradients into the buffer that is scattered."""
    return [copy_seconds(situation, layer.gradient_bytes) for layer in situation.profile.workload.layers]


def memory(situation: Situation) -> Memory:
    """Return what a device holds: its shards, and the units that are whole."""
    plan, workload = situation.plan, situation.profile.workload
    arrays = layer_arrays(workload)
    ranges = tuple(units(arrays.parameter.tolist(), float(plan.knobs["wrap_mb"])))
    shards = zero_shards(int(plan.knobs["level"]), plan.devices, ranges)
    return stage_memory(
        workload,
        situation.profile.optimizer,
        batch=plan.batch_per_device,
        shards=replace(shards, reshard=bool(plan.knobs["reshard"])),
        foreach=takes_all_at_once(situation),
    )
