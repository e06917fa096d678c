"""dasgd: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.strategy.contract import Knob, Memory, Plan, Runner, RunSetting, Situation, Step

MOST_STEPS = 10_000  # of a round that is played step by step


class DelayedAveraging:
    """After ``tau`` local steps a snapshot is averaged and merged ``delay`` steps later; xi of the own stays."""

    name = "dasgd"
    summary = "local steps with delayed averaging: the average travels while the next steps run"
    runnable = True
    knobs: Mapping[str, Knob] = {"tau": 4, "delay": 2, "xi": 0.25}

    def problem(self, situation: Situation) -> str | None:
        """It needs somebody to average with."""
        return "dasgd needs at least 2 devices" if situation.plan.devices < 2 else None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield rounds with the paper's share of the own weights."""
        if situation.plan.devices > 1:
            for tau, delay in ((2, 1), (4, 1), (4, 2), (8, 2), (8, 4)):
                yield {"tau": tau, "delay": delay, "xi": 0.25}

    def step(self, situation: Situation) -> Step:
        """Return rounds whose averages overlap the steps that follow."""
        from paceline.strategy.dasgd.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return a replica's memory with the snapshot that travels."""
        from paceline.strategy.dasgd.cost import memory

        return memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """Replicas drift apart, and the average they meet in is old."""
        knobs = plan.knobs
        if float(knobs["xi"]) == 1:
            return "devices train apart: with xi = 1 nothing is ever averaged"
        return f"weights are averaged every {knobs['tau']} steps and merged {knobs['delay']} steps later"

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        if not 1 <= int(knobs["tau"]) <= MOST_STEPS:
            return "tau", f"is {knobs['tau']}, must be from 1 to {MOST_STEPS}"
        if not 0 <= int(knobs["delay"]) <= int(knobs["tau"]):
            return "delay", f"is {knobs['delay']}, must be from 0 to tau ({knobs['tau']})"
        if not 0 <= float(knobs["xi"]) <= 1:
            return "xi", f"is {knobs['xi']}, must be from 0 to 1"
        return None

    def runner(self, plan: Plan, setting: RunSetting) -> Runner:
        """Return what counts the local steps and sends averages behind them."""
        from paceline.strategy.dasgd.run import DelayedRunner

        return DelayedRunner(plan, setting)
