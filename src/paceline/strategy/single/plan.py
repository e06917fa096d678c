"""single: legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.strategy.contract import Knob, Memory, Plan, Runner, RunSetting, Situation, Step
from paceline.strategy.footprint import replica_memory


class Single:
    """Train on one device."""

    name = "single"
    summary = "one device, no communication"
    runnable = True
    knobs: Mapping[str, Knob] = {}

    def problem(self, situation: Situation) -> str | None:
        """One device is all it can use."""
        if situation.plan.devices != 1:
            return f"single uses 1 device, not {situation.plan.devices}"
        return None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield the only one."""
        if situation.plan.devices == 1:
            yield {}

    def step(self, situation: Situation) -> Step:
        """Return forward, backward and optimizer, one after the other."""
        from paceline.strategy.single.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return the memory of the whole model on one device."""
        return replica_memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """It is what the others are compared with."""
        return None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """There are none."""
        return None

    def runner(self, plan: Plan, setting: RunSetting) -> Runner:
        """Return the plain training step."""
        from paceline.strategy.single.run import SingleRunner

        return SingleRunner(setting)
