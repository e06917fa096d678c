"""pipedream: its knobs, legal plans, and the strategy object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.errors import PacelineError
from paceline.strategy.contract import Knob, Memory, Plan, Situation, Step
from paceline.strategy.pipedream.partition import parse_partition, stages_of
from paceline.strategy.unlaunched import Unlaunched

MOST_WORKERS = 1024  # the timeline goes worker by worker, and so does the planner


class PipeDream(Unlaunched):
    """Mini-batches follow each other without a flush; a backward uses the weights that its forward used."""

    name = "pipedream"
    summary = "asynchronous one-forward-one-backward, weight stashing, replicated stages (PipeDream)"
    knobs: Mapping[str, Knob] = {"partition": "auto", "stash": True, "vertical_sync": False}

    def problem(self, situation: Situation) -> str | None:
        """Stages must cover the layers and use the devices."""
        plan, layers = situation.plan, len(situation.profile.workload.layers)
        if plan.devices < 2:
            return "pipedream needs at least 2 devices"
        if plan.devices > MOST_WORKERS:
            return f"pipedream is predicted for at most {MOST_WORKERS} devices, not {plan.devices}"
        try:
            stages = stages_of(situation)
        except PacelineError as error:
            return str(error)
        workers = sum(stage.replicas for stage in stages)
        if workers != plan.devices:
            return f"the stages have {workers} workers, and the plan has {plan.devices} devices"
        if stages[-1].stop != layers:
            return f"the stages end at layer {stages[-1].stop}, and the model has {layers}"
        return None

    def variants(self, situation: Situation) -> Iterator[Mapping[str, Knob]]:
        """Yield the planner's own choice."""
        if situation.plan.devices > 1:
            yield dict(self.knobs)

    def step(self, situation: Situation) -> Step:
        """Return enough mini-batches for a steady window."""
        from paceline.strategy.pipedream.cost import step

        return step(situation)

    def memory(self, situation: Situation) -> Memory:
        """Return the memory of the fullest worker, with the versions that it stashes."""
        from paceline.strategy.pipedream.memory import pipedream_memory

        return pipedream_memory(situation)

    def changes_update(self, plan: Plan) -> str | None:
        """Gradients are those of weights some updates old."""
        return "gradients are of weights that are some mini-batches old, another number on each stage"

    def check_knobs(self, knobs: Mapping[str, Knob]) -> tuple[str, str] | None:
        """Return the first knob whose value makes no sense."""
        if knobs["partition"] != "auto":
            try:
                parse_partition(str(knobs["partition"]))
            except ValueError as error:
                return "partition", str(error)
        if knobs["vertical_sync"] and not knobs["stash"]:
            return "vertical_sync", "is true without stash: there are no versions to agree on"
        return None
