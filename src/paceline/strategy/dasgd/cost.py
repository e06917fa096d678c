"""dasgd: the tasks of some rounds, of which the last is steady, and its memory.

    compute   [1][2][3][4]snap[1][2]merge[3][4]snap[1][2]merge ...        tau = 4, delay = 2
    network                --average--         --average--

    round = tau T + max(0, C - d T)        T: a local step, C: the averaging                        (DaSGD)

The exposed part falls out of the timeline: the merge waits for the average and nothing else does.
"""

from __future__ import annotations

from paceline.engine.collective import all_reduce
from paceline.engine.program import Builder, Work
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import replica_memory
from paceline.strategy.lanes import add_lanes, copy_seconds
from paceline.strategy.localstep import add_local_step

_ROUNDS = 3  # the second is the first that merges; the time of the third is that of all later ones


def step(situation: Situation) -> Step:
    """Return three rounds of one replica, the window around the last."""
    plan, timing = situation.plan, situation.timing
    tau, delay = int(plan.knobs["tau"]), int(plan.knobs["delay"])
    size = situation.profile.workload.gradient_bytes
    build = Builder()
    lanes = add_lanes(build, situation, "averages")
    # xi = 1 keeps the own weights alone: nothing has to be averaged.
    cost = all_reduce(lanes.group, size if float(plan.knobs["xi"]) < 1 else 0)
    done: list[int] = []
    ends: list[int] = []
    average: int | None = None
    for number in range(_ROUNDS):
        for local in range(tau):
            done = [add_local_step(build, lanes.compute, timing, number * tau + local, done)]
            if average is not None and local == delay - 1:
                done = [_merge(build, situation, lanes.compute, size, [*done, average])]
        snapshot = copy_seconds(situation, size)
        done = [build.task(f"snapshot {number}", Work.COMPUTE, lanes.compute, snapshot, done)]
        average = lanes.send(build, f"average {number}", cost, done)
        if delay == 0:  # merged at once into every replica
            done = [_merge(build, situation, lanes.compute, size, [*done, average])]
        ends.append(done[0])
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        batches=tau,
        window=(ends[-2], ends[-1]),
        network=lanes.group.where,
        network_spread=lanes.group.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def _merge(build: Builder, situation: Situation, compute: int, size: float, after: list[int]) -> int:
    """Add w <- xi w + (1 - xi) average, in place: two reads and a write."""
    return build.task("merge", Work.COMPUTE, compute, copy_seconds(situation, size, 3), after)


def memory(situation: Situation) -> Memory:
    """Return a replica's memory: the snapshot becomes the average in the place where it travels."""
    return replica_memory(situation, communication=situation.profile.workload.gradient_bytes)
