"""Applies the models of pipelines to a plan: 6.1 with 6.2, the bubble, PipeDream's planner."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.engine.group import group_of
from paceline.engine.partition import balanced
from paceline.engine.replication import Level, Replication
from paceline.predictor.reference import gpipe, pipedream
from paceline.predictor.reference.hop import chain_of
from paceline.predictor.reference.on_replicas import Said
from paceline.strategy.contract import Situation
from paceline.workload.profile import Timing


@dataclass(frozen=True, slots=True)
class Shape:
    """A pipeline's stages and micro-batches, and the samples of one micro-batch."""

    stages: int
    micro_batches: int
    samples: int
    replicas: int

    @property
    def note(self) -> str:
        """What the pipelines' models leave out when there are several pipelines."""
        return f"; without the all-reduce of {self.replicas} replicas" if self.replicas > 1 else ""


def shape_of(situation: Situation) -> Shape | None:
    """Return the shape of a plan's pipeline; None where its stages and replicas do not make up its devices."""
    plan = situation.plan
    replicas = int(plan.knobs.get("replicas", 1))
    stages = int(plan.knobs.get("stages", 0)) or plan.devices // replicas
    micro_batches = int(plan.knobs.get("micro_batches", 1)) if plan.strategy != "model" else 1
    if stages * replicas != plan.devices or stages > len(situation.profile.workload.layers):
        return None
    return Shape(stages, micro_batches, math.ceil(plan.batch_per_device * stages / micro_batches), replicas)


def gpipe_thesis(situation: Situation) -> Said:
    """Return 6.1 + 6.2 with the borders of the most balanced split."""
    shape = shape_of(situation)
    if shape is None:
        return None
    timing = situation.timing_at(shape.samples)
    sequential = shape.micro_batches * timing.step_seconds
    borders = _borders(situation, shape, timing)
    transfer = gpipe.transfer_seconds(borders, shape.micro_batches)
    seconds = gpipe.compute_seconds(sequential, shape.stages, shape.micro_batches) + transfer
    once = "; without recomputation" if situation.plan.knobs.get("recompute") else ""
    return seconds, f"equal stages, {transfer / seconds:.0%} of it transfers{once}{shape.note}"


def gpipe_bubble(situation: Situation) -> Said:
    """Return the makespan of equal stages without transfers, optimizer and loader."""
    shape, knobs = shape_of(situation), situation.plan.knobs
    if shape is None:
        return None
    timing, virtual = situation.timing_at(shape.samples), int(knobs.get("virtual", 1))
    seconds = gpipe.makespan(
        timing.forward / shape.stages,
        timing.backward / shape.stages,
        shape.stages,
        shape.micro_batches,
        "checkpoint" if knobs.get("recompute") else "none",
        virtual,
    )
    idle = gpipe.bubble(shape.stages, shape.micro_batches, virtual)
    return seconds, f"equal stages, bubble {idle:.0%}; no transfers, optimizer, loader{shape.note}"


def pipedream_planner(situation: Situation) -> Said:
    """Return the planner's estimate for its own choice of stages, a mini-batch being one device's batch."""
    plan, group = situation.plan, group_of(situation.cluster)
    timing = situation.timing
    workload = situation.profile.workload.at(plan.batch_per_device)
    levels = [Level(group.per_host, group.inside_bandwidth), Level(group.hosts, group.between_bandwidth)]
    weights = [layer.gradient_bytes for layer in workload.layers]
    found = pipedream.planned(_costs(timing), workload.cut_bytes(), weights, levels)
    return pipedream.estimated_seconds(found), f"its own split: {_words(found)}; {found.noam} in flight"


def _words(found: Replication) -> str:
    return ", ".join(f"{stage.stop - stage.first} layers on {stage.replicas}" for stage in found.stages)


def _costs(timing: Timing) -> list[float]:
    return [forward + backward for forward, backward in zip(timing.forward_seconds, timing.backward_seconds)]


def _borders(situation: Situation, shape: Shape, timing: Timing) -> tuple[float, ...]:
    """Return what one micro-batch takes to cross each border of the most balanced split."""
    cuts = situation.profile.workload.at(shape.samples).cut_bytes()
    hops = chain_of(situation.cluster, shape.stages)
    return balanced(_costs(timing), [[hop.seconds(size) for size in cuts] for hop in hops], shape.stages).cut_seconds
