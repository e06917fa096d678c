"""The memory of the fullest device of a flushed pipeline."""

from __future__ import annotations

from paceline.engine.program import Builder
from paceline.strategy.contract import Memory, Situation
from paceline.strategy.footprint import stage_memory
from paceline.strategy.pipeline.links import Links
from paceline.strategy.pipeline.order import device_order, in_flight
from paceline.strategy.pipeline.shape import shape_of
from paceline.strategy.pipeline.split import stage_ranges_of


def pipeline_memory(situation: Situation, schedule: str, recompute: bool = False) -> Memory:
    """Return the bytes of the device that needs most; several stages of one device add up."""
    shape = shape_of(situation.plan)
    ranges = stage_ranges_of(situation, shape, Links(Builder(), situation.cluster))
    workload = situation.profile.workload
    every = []
    for device in range(shape.devices):
        flying = in_flight(device_order(schedule, shape.devices, shape.virtual, shape.micro_batches, device))
        every.append(
            combined(
                [
                    stage_memory(
                        workload,
                        situation.profile.optimizer,
                        batch=shape.micro_size,
                        layers=ranges[stage],
                        in_flight=number,
                        passes=shape.micro_batches,
                        recompute=recompute,
                    )
                    for stage, number in flying.items()
                ]
            )
        )
    return max(every, key=lambda memory: memory.total)


def combined(parts: list[Memory]) -> Memory:
    """Return the sum of several stages on one device, which peak at nearly the same time."""
    if len(parts) == 1:
        return parts[0]
    from dataclasses import fields

    return Memory(**{field.name: sum(getattr(part, field.name) for part in parts) for field in fields(Memory)})
