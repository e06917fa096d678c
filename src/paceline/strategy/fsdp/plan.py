"""fsdp: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.unlaunched import Unlaunched

LEVELS = (1, 2, 3)


class FullySharded(Unlaunched):
    """Every device keeps a part of the optimizer state (1), gradients too (2), parameters too (3)."""

    name = "fsdp"
    summary = "data parallel with optimizer state (1), gradients (2), parameters (3) divided over devices (FSDP2, ZeRO)"
    knobs: Mapping[str, Knob] = {"level": 3, "reshard": True, "wrap_mb": 50.0}

    def problem(self, situation: Situation) -> str | None:
        """It needs somebody to share with."""
        return "fsdp needs at least 2 devices" if situation.plan.devices < 2 else None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield the levels; units of two sizes where parameters are gathered."""
        if situation.plan.devices < 2:
            return
        yield {"level": 1, "reshard": False, "wrap_mb": 50.0}
        yield {"level": 2, "reshard": False, "wrap_mb": 50.0}
        for wrap_mb in (10.0, 50.0):
            yield {"level": 3, "reshard": True, "wrap_mb": wrap_mb}

    def step(self, situation: Situation) -> Step:
        """Return the step with each unit's gathers and scatters around its compute."""
        from paceline.strategy.fsdp.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return a device's shards, and the units that are whole at a time."""
        from paceline.strategy.fsdp.cost import memory

        return memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """Averaged gradients are those of the global batch."""
        return None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        if knobs["level"] not in LEVELS:
            return "level", f"is {knobs['level']}, must be 1, 2 or 3"
        if not 0 < float(knobs["wrap_mb"]) <= 1 << 20:
            return "wrap_mb", f"is {knobs['wrap_mb']}, must be above 0 and at most {1 << 20}"
        if knobs["reshard"] and knobs["level"] != 3:
            return (
                "reshard",
                f"is true, but at level {knobs['level']} parameters stay whole after the forward: set reshard = false",
            )
        return None
