"""The Prediction: what should happen. A Run has the same fields, so that the two subtract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from paceline.artefact import Artefact
from paceline.engine.breakdown import Breakdown
from paceline.strategy.contract import Memory, Plan


@dataclass(frozen=True, slots=True)
class Cost:
    """Money for one epoch, and for all epochs of the job."""

    epoch: float
    total: float
    currency: str


@dataclass(frozen=True, slots=True)
class Prediction(Artefact):
    """A plan's step, epoch, memory and cost.

    ``step_seconds`` is the time in which one global batch is trained; ``breakdown`` is exclusive per device and
    averaged over devices, so it sums to the step. ``step_seconds_range`` should hold 8 of 10 measured steps.
    ``source`` says where the compute times come from; ``guessed`` lists what nobody measured.
    """

    kind: ClassVar[str] = "prediction"

    workload: str
    cluster: str
    plan: Plan
    devices: int
    hosts: int
    global_batch: int
    step_seconds: float
    step_seconds_range: tuple[float, float]
    samples_per_second: float
    unit: str  # what a sample is called
    tokens_per_second: float | None
    epoch_samples: int
    epoch_steps: int
    epoch_seconds: float
    total_seconds: float
    breakdown: Breakdown
    memory_bytes: int
    memory: Memory
    device_memory_bytes: int
    fits: bool
    bottleneck: str
    cost: Cost | None
    source: str
    changes_update: str | None = None
    guessed: tuple[str, ...] = ()
    scaling: Mapping[str, float] | None = None  # {"speedup", "efficiency"} over one device at the same batch on it
