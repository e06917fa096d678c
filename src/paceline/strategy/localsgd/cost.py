"""localsgd: the tasks of a round, and its memory.

    round = tau T + C      T: a local step, C: the average of the weights, which everybody waits for    (Stich 2018)

The weights are copied to where they travel, and back: on a device a fraction of a percent of a step.

The time is that of the phase in which steps are local: with a post-local start, the epochs before it are allreduce's.
"""

from __future__ import annotations

from paceline.engine.collective import all_reduce
from paceline.engine.program import Builder, Work
from paceline.strategy.contract import Memory, Situation, Step
from paceline.strategy.footprint import replica_memory
from paceline.strategy.lanes import add_lanes, copy_seconds, wait_for_slowest
from paceline.strategy.localsgd.plan import OUTERS
from paceline.strategy.localstep import add_local_steps


def step(situation: Situation) -> Step:
    """Return one round of one replica; all of them do the same."""
    plan, timing, workload = situation.plan, situation.timing, situation.profile.workload
    tau = int(plan.knobs["tau"])
    build = Builder()
    lanes = add_lanes(build, situation, "averages")
    size = workload.gradient_bytes
    done = [add_local_steps(build, lanes.compute, timing, 0, tau, [])]
    done = [build.task("copy to average", Work.COMPUTE, lanes.compute, copy_seconds(situation, size), done)]
    # Chance adds up over the local steps, so waiting once for the slowest costs sqrt(tau) of waiting every time.
    done = wait_for_slowest(build, lanes, timing, plan.devices, done, tau)
    sent = lanes.send(build, "average", all_reduce(lanes.group, size), done)
    passes = 2 + 3 * OUTERS[str(plan.knobs["outer"])]  # the average read and written; an outer step reads its state too
    build.task("take the average", Work.COMPUTE, lanes.compute, copy_seconds(situation, size, passes), [sent])
    return Step(
        build.build(),
        samples=plan.devices * plan.batch_per_device,
        batches=tau,
        network=lanes.group.where,
        network_spread=lanes.group.spread or 0.1,
        notes=situation.cluster.guessed(),
    )


def memory(situation: Situation) -> Memory:
    """Return a replica's memory: the weights travel in a buffer of their size; outer optimizers keep copies of them."""
    size = situation.profile.workload.gradient_bytes
    return replica_memory(situation, communication=size, snapshots=OUTERS[str(situation.plan.knobs["outer"])])
