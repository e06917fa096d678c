"""The shape of a pipeline: how many stages, replicas and micro-batches a plan's knobs mean, and what makes no sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paceline.strategy.contract import Knob, Plan, Situation

MOST_PASSES = 1 << 20  # forwards of a pipeline that are played one by one


@dataclass(frozen=True, slots=True)
class Shape:
    """Devices of one pipeline, pipelines side by side, stages a device, micro-batches of so many samples.

    Rank r * devices + d is device d of replica r: a pipeline's devices are neighbours.
    """

    devices: int
    replicas: int
    virtual: int
    micro_batches: int
    micro_size: int

    @property
    def stages(self) -> int:
        """Stages of one pipeline."""
        return self.devices * self.virtual


def shape_of(plan: Plan) -> Shape:
    """Return the shape of a plan: ``stages`` devices a pipeline, 0 for all devices of a replica.

    The samples of a pipeline's batch are those of its devices: ``batch_per_device`` times as many.
    """
    knobs = plan.knobs
    replicas = int(knobs.get("replicas", 1))
    devices = int(knobs["stages"]) or max(plan.devices // max(replicas, 1), 1)
    micro_batches = int(knobs.get("micro_batches", 1))
    return Shape(
        devices=devices,
        replicas=replicas,
        virtual=int(knobs.get("virtual", 1)),
        micro_batches=micro_batches,
        micro_size=plan.batch_per_device * devices // micro_batches,
    )


def shape_problem(situation: Situation) -> str | None:
    """Return why a plan's shape cannot be, as the end of a sentence, or None."""
    plan, shape = situation.plan, shape_of(situation.plan)
    name, batch = plan.strategy, plan.batch_per_device * shape.devices
    if shape.devices < 2:
        return f"{name} needs at least 2 stages; single is the same on one"
    if shape.devices * shape.replicas != plan.devices:
        return (
            f"{shape.devices} stages in {shape.replicas} replicas are {shape.devices * shape.replicas} devices, "
            f"and the plan has {plan.devices}"
        )
    layers = len(situation.profile.workload.layers)
    if shape.stages > layers:
        return f"{shape.stages} stages are more than the model's {layers} layers"
    if batch % shape.micro_batches or not shape.micro_size:
        return f"{shape.micro_batches} micro-batches do not divide a batch of {batch}"
    if shape.stages * shape.micro_batches > MOST_PASSES:
        return f"{shape.micro_batches} micro-batches through {shape.stages} stages are more than {MOST_PASSES} passes"
    if shape.virtual > 1 and shape.micro_batches % shape.devices:
        return f"interleaved stages need a multiple of {shape.devices} micro-batches, not {shape.micro_batches}"
    return None


def shapes(situation: Situation, most_virtual: int = 1) -> Iterator[dict[str, Knob]]:
    """Yield knobs worth trying: pipelines of 2, 4, ... devices and of all, with micro-batches by powers of two."""
    plan, layers = situation.plan, len(situation.profile.workload.layers)
    lengths = {plan.devices} | {1 << power for power in range(1, 7)}
    for devices in sorted(lengths):
        if devices < 2 or plan.devices % devices:
            continue
        batch = plan.batch_per_device * devices
        for times in (1, 2, 4, 8):
            micro_batches = devices * times
            if micro_batches > batch or batch % micro_batches:
                continue
            for virtual in (1, 2, 4):
                if virtual <= most_virtual and devices * virtual <= layers:
                    yield {
                        "stages": devices,
                        "micro_batches": micro_batches,
                        "replicas": plan.devices // devices,
                        "virtual": virtual,
                    }


def shape_mistake(knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
    """Return the first knob of a shape whose value makes no sense."""
    if int(knobs["stages"]) < 0:
        return "stages", f"is {knobs['stages']}, must be at least 2, or 0 for all devices of a replica"
    for key in ("micro_batches", "replicas", "virtual"):
        if int(knobs.get(key, 1)) < 1:
            return key, f"is {knobs[key]}, must be at least 1"
    return None
