"""single: the tasks of a step."""

from __future__ import annotations

from paceline.engine.program import Builder
from paceline.strategy.compute import add_backward, add_forward, add_optimizer, add_start
from paceline.strategy.contract import Situation, Step


def step(situation: Situation) -> Step:
    """Return data, loop, forward, backward and optimizer on one stream."""
    batch = situation.plan.batch_per_device
    workload, timing = situation.profile.workload, situation.timing
    build = Builder()
    compute = build.stream("compute", build.role("device"))
    start = add_start(build, compute, timing)
    forward = add_forward(build, compute, workload, timing, [start])
    backward = add_backward(build, compute, workload, timing, [forward])
    add_optimizer(build, compute, timing, [backward.last])
    return Step(build.build(), samples=batch)
