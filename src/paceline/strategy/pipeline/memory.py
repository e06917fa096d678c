"""The memory of the fullest device of a flushed pipeline."""

from __future__ import annotations

from dataclasses import fields

from paceline.engine.program import Builder
from paceline.strategy.contract import Memory, Situation
from paceline.strategy.footprint import stage_memory, takes_all_at_once
from paceline.strategy.pipeline.links import links_of
from paceline.strategy.pipeline.order import flying
from paceline.strategy.pipeline.shape import shape_of
from paceline.strategy.pipeline.split import Held, stage_ranges_of


def pipeline_memory(situation: Situation, schedule: str, recompute: bool = False) -> Memory:
    """Return the bytes of the device that needs most; several stages of one device add up."""
    shape = shape_of(situation.plan)
    ranges = stage_ranges_of(situation, shape, links_of(Builder(), situation.cluster, shape), Held(schedule, recompute))
    workload = situation.profile.workload

    def held(stage: int, number: int) -> Memory:
        return stage_memory(
            workload,
            situation.profile.optimizer,
            batch=shape.micro_size,
            layers=ranges[stage],
            in_flight=number,
            passes=shape.micro_batches,
            recompute=recompute,
            foreach=takes_all_at_once(situation),
        )

    every = (
        combined([held(*each) for each in flying(schedule, shape.devices, shape.virtual, shape.micro_batches, device)])
        for device in range(shape.devices)
    )
    return max(every, key=lambda memory: memory.total)


def combined(parts: list[Memory]) -> Memory:
    """Return the sum of several stages on one device, which peak at nearly the same time."""
    if len(parts) == 1:
        return parts[0]
    return Memory(**{field.name: sum(getattr(part, field.name) for part in parts) for field in fields(Memory)})
