"""The Recommendation: plans best first, what was dropped and why, what would change the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.artefact import Artefact
from paceline.predictor.prediction import Prediction
from paceline.strategy.contract import Plan

Objective = Literal["time", "cost", "memory"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A plan that cannot be used, and why."""

    plan: Plan
    reason: str


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What is fastest if something were different. ``same`` says whether the answer stays."""

    change: str
    best: Plan
    epoch_seconds: float
    same: bool


@dataclass(frozen=True, slots=True)
class Recommendation(Artefact):
    """Plans that fit, best first: those that keep the update rule, then those that change it."""

    kind: ClassVar[str] = "recommendation"

    workload: str
    cluster: str
    objective: Objective
    plans: tuple[Prediction, ...]
    dropped: tuple[Dropped, ...]
    sensitivity: tuple[Sensitivity, ...]
    batch_limit: int
    batch_limit_source: str
    seconds_spent: float

    @property
    def best(self) -> Prediction:
        """The plan to take."""
        return self.plans[0]

    def kept(self) -> tuple[Prediction, ...]:
        """Return the plans that keep the update rule."""
        return tuple(plan for plan in self.plans if plan.changes_update is None)
