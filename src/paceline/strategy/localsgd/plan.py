"""localsgd: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from paceline.errors import suggestion
from paceline.strategy.contract import Knob, Memory, Plan, Runner, RunSetting, Situation, Step

# Copies of the weights that an outer optimizer keeps besides the model's: the anchor, and its momentum.
OUTERS: Mapping[str, int] = {"none": 0, "slowmo": 2, "diloco": 2}
MOST_STEPS = 10_000  # of a round that is played step by step
# (outer_lr, outer_momentum) of each method: fairscale's SlowMo, and DiLoCo's paper.
OWN_CONSTANTS: Mapping[str, tuple[float, float]] = {"slowmo": (1.0, 0.5), "diloco": (0.7, 0.9)}
TAUS = (2, 4, 8, 16, 32)


def outer_constants(knobs: Mapping[str, Knob]) -> tuple[float, float]:
    """Return an outer optimizer's learning rate and momentum: the method's own where the knobs leave them.

    >>> outer_constants({"outer": "diloco", "outer_lr": 0.0, "outer_momentum": -1.0})
    (0.7, 0.9)
    >>> outer_constants({"outer": "diloco", "outer_lr": 1.0, "outer_momentum": 0.0})
    (1.0, 0.0)
    """
    lr, momentum = OWN_CONSTANTS.get(str(knobs["outer"]), (0.0, 0.0))
    given_lr, given_momentum = float(knobs["outer_lr"]), float(knobs["outer_momentum"])
    return given_lr or lr, momentum if given_momentum < 0 else given_momentum


class LocalSGD:
    """Devices train apart for ``tau`` steps and meet in the average of their weights."""

    name = "localsgd"
    summary = "tau local steps, then weights are averaged; outer optimizers (SlowMo, DiLoCo)"
    runnable = True
    # An outer_lr of 0 and an outer_momentum below 0 are the method's own.
    knobs: Mapping[str, Knob] = {"tau": 4, "start": 0, "outer": "none", "outer_lr": 0.0, "outer_momentum": -1.0}

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
        """Replicas drift apart between averages, which an outer optimizer does not take as they are."""
        tau, outer = int(plan.knobs["tau"]), plan.knobs["outer"]
        if tau == 1 and outer == "none":
            return None
        after = "" if outer == "none" else f", and {outer} steps from there"
        return f"weights are averaged every {f'{tau} steps' if tau > 1 else 'step'}{after}"

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        if not 1 <= int(knobs["tau"]) <= MOST_STEPS:
            return "tau", f"is {knobs['tau']}, must be from 1 to {MOST_STEPS}"
        if int(knobs["start"]) < 0:
            return "start", f"is {knobs['start']}, must be the epoch from which steps are local, at least 0"
        if knobs["outer"] not in OUTERS:
            return "outer", f"is {knobs['outer']!r}, not an outer optimizer{suggestion(str(knobs['outer']), OUTERS)}"
        for key, legal in (("outer_lr", "0 (the method's own) or above"), ("outer_momentum", "below 1")):
            value = float(knobs[key])
            if knobs["outer"] == "none" and value != self.knobs[key]:
                return key, f"is {value:g}, and there is no outer optimizer; take outer = 'slowmo' or 'diloco'"
            if not (value >= 0 if key == "outer_lr" else value < 1) or not math.isfinite(value):
                return key, f"is {value:g}, must be {legal}"
        return None

    def runner(self, plan: Plan, setting: RunSetting) -> Runner:
        """Return what counts the local steps."""
        from paceline.strategy.localsgd.run import LocalRunner

        return LocalRunner(plan, setting)
