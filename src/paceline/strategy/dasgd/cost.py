"""dasgd: the tasks of some rounds, of which the last is steady, and its memory.

    compute   [1][2][3][4]snap[1][2]merge[3][4]snap[1][2]merge ...        tau = 4, delay = 2
    network                --average--         --average--

    round = tau T + max(0, C - d T)        T: a local step, C: the averaging                        (DaSGD)

The exposed part falls out of the timeline: the merge waits for the average and nothing else does. An average is there
when the slowest device has sent its part, so what chance adds to a round is hidden or exposed with it. With d = 0 it is
local SGD; with xi = 1 devices keep their own weights, and nothing is sent.
"""

from __future__ import annotations

from paceline.engine.collective import all_reduce
from paceline.engine.program import Builder, Work
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import replica_memory
from paceline.strategy.lanes import Lanes, add_lanes, copy_seconds, wait_for_slowest
from paceline.strategy.localstep import add_local_steps

_ROUNDS = 3  # the second is the first that merges; the time of the third is that of all later ones


def step(situation: Situation) -> Step:
    """Return three rounds of one replica, the window around the last."""
    plan = situation.plan
    tau, delay = int(plan.knobs["tau"]), int(plan.knobs["delay"])
    build = Builder()
    lanes = add_lanes(build, situation, "averages")
    apart = float(plan.knobs["xi"]) == 1
    average: int | None = None
    done, ends = -1, []
    for number in range(_ROUNDS):
        after = [done] if number else []
        if average is None:
            done = add_local_steps(build, lanes.compute, situation.timing, number * tau, tau, after)
        else:
            done = _steps_around_merge(build, situation, lanes, number, after, average)
        if not apart:
            done, average = _snapshot(build, situation, lanes, number, done)
            if delay == 0:  # merged at once into every replica
                done, average = _merge(build, situation, lanes.compute, [average]), None
        ends.append(done)
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        batches=tau,
        window=(ends[-2], ends[-1]),
        network=lanes.group.where,
        network_spread=lanes.group.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def _steps_around_merge(
    build: Builder, situation: Situation, lanes: Lanes, number: int, after: list[int], average: int
) -> int:
    """Add a round's local steps, with the merge of the last round's average behind the first ``delay`` of them."""
    tau, delay = (int(situation.plan.knobs[key]) for key in ("tau", "delay"))
    done = add_local_steps(build, lanes.compute, situation.timing, number * tau, delay, after)
    done = _merge(build, situation, lanes.compute, [done, average])
    if tau == delay:
        return done
    return add_local_steps(build, lanes.compute, situation.timing, number * tau + delay, tau - delay, [done])


def _snapshot(build: Builder, situation: Situation, lanes: Lanes, number: int, after: int) -> tuple[int, int]:
    """Add a copy of the weights and its average; return both."""
    plan, timing, size = situation.plan, situation.timing, situation.profile.workload.gradient_bytes
    taken = build.task(f"snapshot {number}", Work.COMPUTE, lanes.compute, copy_seconds(situation, size), [after])
    there = wait_for_slowest(build, lanes, timing, plan.devices, [taken], int(plan.knobs["tau"]))
    return taken, lanes.send(build, f"average {number}", all_reduce(lanes.group, size), there)


def _merge(build: Builder, situation: Situation, compute: int, after: list[int]) -> int:
    """Add w <- xi w + (1 - xi) average, in place: two reads and a write; with xi = 0 the average is all there is."""
    passes = 3 if float(situation.plan.knobs["xi"]) else 2
    size = situation.profile.workload.gradient_bytes
    return build.task("merge", Work.COMPUTE, compute, copy_seconds(situation, size, passes), after)


def memory(situation: Situation) -> Memory:
    """Return a replica's memory: the snapshot becomes the average in the place where it travels."""
    apart = float(situation.plan.knobs["xi"]) == 1
    return replica_memory(situation, communication=0 if apart else situation.profile.workload.gradient_bytes)
