"""localsgd: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.errors import suggestion
from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.unlaunched import Unlaunched

# Copies of the weights that an outer optimizer keeps besides the model's: the anchor, and its momentum.
OUTERS: Mapping[str, int] = {"none": 0, "slowmo": 2, "diloco": 2}
MOST_STEPS = 10_000  # of a round that is played step by step
TAUS = (2, 4, 8, 16, 32)


class LocalSGD(Unlaunched):
    """Devices train apart for ``tau`` steps and meet in the average of their weights."""

    name = "localsgd"
    summary = "tau local steps, then weights are averaged; outer optimizers (SlowMo, DiLoCo)"
    knobs: Mapping[str, Knob] = {"tau": 4, "start": 0, "outer": "none"}

    def problem(self, situation: Situation) -> str | None:
        """It needs somebody to average with."""
        return "localsgd needs at least 2 devices" if situation.plan.devices < 2 else None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield the numbers of local steps."""
        if situation.plan.devices > 1:
            for tau in TAUS:
                yield {**self.knobs, "tau": tau}

    def step(self, situation: Situation) -> Step:
        """Return a round: tau local steps, then the average."""
        from paceline.strategy.localsgd.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return a replica's memory with the outer optimizer's copies."""
        from paceline.strategy.localsgd.cost import memory

        return memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """Replicas drift apart between averages."""
        return f"weights are averaged every {plan.knobs['tau']} steps" if int(plan.knobs["tau"]) > 1 else None

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        if not 1 <= int(knobs["tau"]) <= MOST_STEPS:
            return "tau", f"is {knobs['tau']}, must be from 1 to {MOST_STEPS}"
        if int(knobs["start"]) < 0:
            return "start", f"is {knobs['start']}, must be the epoch from which steps are local, at least 0"
        if knobs["outer"] not in OUTERS:
            return "outer", f"is {knobs['outer']!r}, not an outer optimizer{suggestion(str(knobs['outer']), OUTERS)}"
        return None
